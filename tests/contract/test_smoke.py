def test_health(http): assert http.get("/health").json()["status"]=="healthy"
def test_query(http, collection):
    r=http.post("/query", json={"collections":[collection,"nope"],"query_embedding":[1,2]}); assert r.status_code==200, r.text; print(r.text)
