"""The contract's section "Collections"."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.documents import add, document, documents, documents_path
from tests.support.problems import paths_of, problem_of

pytestmark = pytest.mark.process

NAME_RULES = "3 to 512 characters from [a-zA-Z0-9._-]"
DISTANCES = ["cosine", "l2", "ip"]


def create(http: httpx.Client, name: str, **body: object) -> httpx.Response:
    return http.post("/collections", json={"name": name, **body})


def distance_of(http: httpx.Client, name: str) -> str:
    return str(http.get(f"/collections/{name}").json()["distance"])


# -- creating -----------------------------------------------------------------------------------


def test_creating_returns_201_and_the_collection(http: httpx.Client, new_name: str) -> None:
    response = create(http, new_name, metadata={"team": "docs"})

    assert response.status_code == 201
    assert response.json() == {
        "status": "created",
        "name": new_name,
        "metadata": {"team": "docs"},
        "dimension": None,
        "distance": "cosine",
    }


def test_creating_returns_the_location(http: httpx.Client, new_name: str) -> None:
    location = create(http, new_name).headers["location"]

    assert http.get(location).json()["name"] == new_name


def test_metadata_is_optional(http: httpx.Client, new_name: str) -> None:
    assert create(http, new_name).json()["metadata"] == {}


def test_creating_an_existing_collection_is_409(http: httpx.Client, new_name: str) -> None:
    create(http, new_name, metadata={"team": "docs"})

    problem = problem_of(create(http, new_name, metadata={"team": "support"}), 409)

    assert new_name in problem["detail"]
    assert http.get(f"/collections/{new_name}").json()["metadata"] == {"team": "docs"}


def test_get_or_create_creates_a_missing_collection(http: httpx.Client, new_name: str) -> None:
    response = create(http, new_name, get_or_create=True)

    assert response.status_code == 201
    assert response.json()["status"] == "created"


def test_get_or_create_returns_200_for_an_existing_collection_and_does_not_change_it(
    http: httpx.Client, new_name: str
) -> None:
    create(http, new_name, metadata={"team": "docs"}, distance="ip")

    response = create(http, new_name, metadata={"team": "support"}, distance="l2", get_or_create=True)

    assert response.status_code == 200
    assert response.json()["metadata"] == {"team": "docs"}
    assert response.json()["distance"] == "ip"
    assert response.headers["location"] == f"/collections/{new_name}"


@pytest.mark.parametrize("chosen", ["abc", "a" * 512, "1.2.3", "A-b_c.9", "0123", "1.2.3.4.5", "documents", "query"])
def test_names_follow_the_rules_of_chroma(http: httpx.Client, chosen: str) -> None:
    response = create(http, chosen)
    http.delete(f"/collections/{chosen}")

    assert response.status_code == 201


@pytest.mark.parametrize(
    "chosen",
    [
        "",
        "ab",
        "a" * 513,
        "-abc",
        "abc-",
        ".abc",
        "abc_",
        "a..b",
        "a b",
        "a/b",
        "../etc/passwd",
        "a\\b",
        "a%2Fb",
        "abc\n",
        "naïve",
        "文档集合",
        "a\u0000b",
        "127.0.0.1",
        "999.1.1.1",
        "a:b",
    ],
    ids=ascii,
)
def test_a_bad_name_is_400_with_the_rules(http: httpx.Client, chosen: str) -> None:
    problem = problem_of(create(http, chosen), 400)

    assert NAME_RULES in problem["detail"]
    assert "begins and ends with a letter or digit" in problem["detail"]
    assert "'..'" in problem["detail"]
    assert "IPv4" in problem["detail"]
    assert paths_of(problem) == ["$.name"]


@pytest.mark.parametrize("key", ["embedding_provider", "embedding_model"])
def test_top_level_embedding_fields_override_metadata(http: httpx.Client, new_name: str, key: str) -> None:
    response = create(http, new_name, metadata={key: "inside", "other": 1}, **{key: "on top"})

    assert response.json()["metadata"] == {key: "on top", "other": 1}


def test_embedding_fields_in_metadata_are_stored_without_top_level_ones(http: httpx.Client, new_name: str) -> None:
    assert create(http, new_name, metadata={"embedding_model": "inside"}).json()["metadata"] == {
        "embedding_model": "inside"
    }


@pytest.mark.parametrize("provider", ["openai", "no-such-provider", "", "日本語"])
def test_no_provider_is_validated(http: httpx.Client, new_name: str, provider: str) -> None:
    assert create(http, new_name, embedding_provider=provider).json()["metadata"] == {"embedding_provider": provider}


def test_the_distance_defaults_to_cosine(http: httpx.Client, new_name: str) -> None:
    create(http, new_name)

    assert distance_of(http, new_name) == "cosine"


@pytest.mark.parametrize("distance", DISTANCES)
def test_the_distance_can_be_chosen(http: httpx.Client, new_name: str, distance: str) -> None:
    create(http, new_name, distance=distance)

    assert distance_of(http, new_name) == distance


@pytest.mark.parametrize("distance", DISTANCES)
def test_the_distance_can_be_chosen_as_older_clients_do(http: httpx.Client, new_name: str, distance: str) -> None:
    response = create(http, new_name, metadata={"hnsw:space": distance})

    assert response.json()["metadata"] == {"hnsw:space": distance}
    assert distance_of(http, new_name) == distance


def test_a_distance_chosen_twice_must_be_the_same(http: httpx.Client, new_name: str) -> None:
    problem = problem_of(create(http, new_name, distance="l2", metadata={"hnsw:space": "ip"}), 400)

    assert paths_of(problem) == ["$.metadata.hnsw:space"]
    assert http.get(f"/collections/{new_name}").status_code == 404


# -- listing and reading ------------------------------------------------------------------------


@pytest.fixture
def three(http: httpx.Client, new_name: str) -> Iterator[list[str]]:
    """Three collections."""
    names = [f"{new_name}-{number}" for number in range(3)]
    for one in names:
        create(http, one)
    yield names
    for one in names:
        http.delete(f"/collections/{one}")


def test_all_collections_are_listed_without_a_limit(http: httpx.Client, three: list[str]) -> None:
    response = http.get("/collections")

    assert response.status_code == 200
    listed = response.json()
    assert set(three) <= {found["name"] for found in listed["collections"]}
    assert listed["count"] == listed["total"] == len(listed["collections"])


def test_listed_collections_have_the_fields_of_a_single_one(http: httpx.Client, new_name: str) -> None:
    create(http, new_name, metadata={"team": "docs"}, distance="l2")
    add(http, new_name, *documents(3))

    listed = {found["name"]: found for found in http.get("/collections").json()["collections"]}

    assert listed[new_name] == {
        "name": new_name,
        "metadata": {"team": "docs"},
        "count": 3,
        "dimension": 2,
        "distance": "l2",
    }
    assert listed[new_name] == http.get(f"/collections/{new_name}").json()


def test_documents_are_counted_in_a_list_unless_counts_is_false(http: httpx.Client, new_name: str) -> None:
    create(http, new_name)
    add(http, new_name, *documents(3))

    def count(query: str) -> object:
        listed = http.get(f"/collections{query}").raise_for_status().json()["collections"]
        return next(found["count"] for found in listed if found["name"] == new_name)

    assert [count(query) for query in ("", "?counts=true", "?counts=false")] == [3, 3, None]


def test_a_list_that_was_counted_in_time_has_no_number_of_uncounted_collections(
    http: httpx.Client, three: list[str]
) -> None:
    assert "uncounted" not in http.get("/collections").json()
    assert "uncounted" not in http.get("/collections?counts=false").json()


def test_pages_of_collections_add_up_to_the_whole_list(http: httpx.Client, three: list[str]) -> None:
    everything = [found["name"] for found in http.get("/collections").json()["collections"]]

    pages = [
        http.get("/collections", params={"limit": 2, "offset": offset}).json()
        for offset in range(0, len(everything), 2)
    ]

    assert [found["name"] for page in pages for found in page["collections"]] == everything
    assert {page["total"] for page in pages} == {len(everything)}
    assert [page["count"] for page in pages] == [len(page["collections"]) for page in pages]


def test_a_page_beyond_the_last_collection_is_empty(http: httpx.Client, three: list[str]) -> None:
    page = http.get("/collections", params={"offset": 1_000_000}).json()

    assert page["collections"] == []
    assert page["count"] == 0
    assert page["total"] >= len(three)


def test_a_collection_has_metadata_count_dimension_and_distance(http: httpx.Client, new_name: str) -> None:
    create(http, new_name, metadata={"team": "docs"}, distance="ip")
    add(http, new_name, document("a", embedding=[1, 2, 3]))

    response = http.get(f"/collections/{new_name}")

    assert response.status_code == 200
    assert response.json() == {
        "name": new_name,
        "metadata": {"team": "docs"},
        "count": 1,
        "dimension": 3,
        "distance": "ip",
    }


def test_an_empty_collection_has_no_dimension(http: httpx.Client, collection: str) -> None:
    assert http.get(f"/collections/{collection}").json()["dimension"] is None


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("PUT", "/metadata", {"metadata": {}}),
        ("DELETE", "", None),
        ("GET", "/metadata-values?field=a", None),
        ("POST", "/documents", {"documents": [document()]}),
        ("PUT", "/documents", {"documents": [document()]}),
        ("GET", "/documents", None),
        ("POST", "/documents/filter", {}),
        ("GET", "/documents/a", None),
        ("DELETE", "/documents?ids=a", None),
        ("POST", "/documents/delete", {"ids": ["a"]}),
        ("DELETE", "/documents/all", None),
        ("POST", "/query", {"query_embedding": [1, 0]}),
    ],
)
def test_an_unknown_collection_is_404_everywhere(
    http: httpx.Client, new_name: str, method: str, path: str, body: object
) -> None:
    problem = problem_of(http.request(method, f"/collections/{new_name}{path}", json=body), 404)

    assert problem["detail"] == f"Collection '{new_name}' not found"
    assert http.get(f"/collections/{new_name}").status_code == 404


@pytest.mark.parametrize("impossible", ["a%2Fb", "%2E%2E", "127.0.0.1", "a", "a%20b", "%00", "na%C3%AFve"])
def test_a_name_that_no_collection_can_have_is_404(http: httpx.Client, impossible: str) -> None:
    problem_of(http.get(f"/collections/{impossible}"), 404)


# -- deleting -----------------------------------------------------------------------------------


def test_deleting_a_collection_removes_it_with_its_documents(http: httpx.Client, new_name: str) -> None:
    create(http, new_name)
    add(http, new_name, document())

    response = http.delete(f"/collections/{new_name}")

    assert response.status_code == 200
    assert response.json() == {"status": "deleted", "name": new_name}
    problem_of(http.get(f"/collections/{new_name}"), 404)
    problem_of(http.get(documents_path(new_name)), 404)


def test_a_deleted_collection_can_be_created_again(http: httpx.Client, new_name: str) -> None:
    create(http, new_name, distance="ip", metadata={"a": 1})
    add(http, new_name, document("old", embedding=[1, 2]))
    http.delete(f"/collections/{new_name}")

    create(http, new_name, distance="l2")
    add(http, new_name, document("new", embedding=[1, 2, 3]))

    assert http.get(f"/collections/{new_name}").json() == {
        "name": new_name,
        "metadata": {},
        "count": 1,
        "dimension": 3,
        "distance": "l2",
    }


def test_nothing_of_a_deleted_collection_shows_in_another(http: httpx.Client, new_name: str) -> None:
    create(http, new_name)
    add(http, new_name, document("a", text="old", old="value", parts=["of", "the", "old"], numbers=[1, 2]))
    http.delete(f"/collections/{new_name}")

    create(http, new_name)
    add(http, new_name, document("a", text="new"))

    listed = http.get(documents_path(new_name)).json()["documents"]
    assert listed == [{"id": "a", "text": "new", "metadata": {}}]


def test_a_collection_may_be_created_with_parameters_of_its_index(http: httpx.Client, name: str) -> None:
    hnsw = {"ef_construction": 200, "max_neighbors": 32, "ef_search": 150}
    response = http.post("/collections", json={"name": name, "hnsw": hnsw})
    assert response.status_code == 201
    documents = [{"id": str(n), "text": "t", "embedding": [1.0, n]} for n in range(3)]
    assert http.post(f"/collections/{name}/documents", json={"documents": documents}).status_code == 201
    assert http.delete(f"/collections/{name}").status_code == 200


def test_a_collection_has_the_parameters_of_its_index_that_are_not_chromas_defaults(
    http: httpx.Client, new_name: str
) -> None:
    http.post("/collections", json={"name": new_name, "hnsw": {"ef_construction": 100, "max_neighbors": 32}})
    listed = {each["name"]: each for each in http.get("/collections?limit=1000").json()["collections"]}
    assert http.get(f"/collections/{new_name}").json()["hnsw"] == {"max_neighbors": 32}
    assert listed[new_name]["hnsw"] == {"max_neighbors": 32}


def test_a_collection_whose_index_has_chromas_defaults_has_no_parameters(http: httpx.Client, new_name: str) -> None:
    create(http, new_name)
    assert "hnsw" not in http.get(f"/collections/{new_name}").json()


@pytest.mark.parametrize(
    "hnsw", [{"max_neighbors": 1}, {"max_neighbors": 257}, {"ef_search": 0}, {"ef_construction": "many"}, [1]], ids=str
)
def test_parameters_of_the_index_beyond_their_bounds_are_rejected(http: httpx.Client, name: str, hnsw: object) -> None:
    response = http.post("/collections", json={"name": name, "hnsw": hnsw})
    assert response.status_code == 400
    assert response.json()["errors"][0]["path"].startswith("$.hnsw")
    assert http.get(f"/collections/{name}").status_code == 404


@pytest.mark.parametrize(("distance", "warnings"), [("cosine", 0), ("l2", 1), ("ip", 1)])
def test_a_new_collection_whose_index_may_lose_documents_has_a_warning(
    http: httpx.Client, name: str, distance: str, warnings: int
) -> None:
    response = http.post("/collections", json={"name": name, "distance": distance})
    assert len(response.json().get("warnings", [])) == warnings
    http.delete(f"/collections/{name}")
