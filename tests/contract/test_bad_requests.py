"""Invalid collections, parameters and fields: 400 with the path of the field, and nothing is written."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.contract.conftest import SendInvalid
from tests.support.documents import add, document, ids_of
from tests.support.malformed_json import HUGE, SURROGATE
from tests.support.pages import ROOT
from tests.support.problems import paths_of, problem_of

pytestmark = pytest.mark.process

SINGLE_VALUED = [
    (method.upper(), path.replace("{collection_name}", "COLLECTION").replace("{document_id}", "kept"), each["name"])
    for path, operations in json.loads((ROOT / "openapi/openapi.json").read_text())["paths"].items()
    for method, operation in operations.items()
    for each in operation.get("parameters", ())
    # A filter has a media type in place of a schema.
    if each["in"] == "query" and each.get("schema", {}).get("type") != "array"
]
"""Method, path and name of each documented query parameter that has one value."""


# -- query parameters ---------------------------------------------------------------------------


@pytest.mark.parametrize("values", [("1", "1"), ("null", "null")], ids=" ".join)
@pytest.mark.parametrize(("method", "path", "name"), SINGLE_VALUED)
def test_a_repeated_parameter(
    rejection: SendInvalid, method: str, path: str, name: str, values: tuple[str, str]
) -> None:
    problem = rejection(method, path + "?" + "&".join(f"{name}={value}" for value in values))

    assert problem["errors"] == [{"path": f"$.{name}", "message": "The query parameter must not be repeated"}]


@pytest.mark.parametrize("name", ["max_neighbors", "ef_construction", "ef_search"])
@pytest.mark.parametrize("value", ["null", "NULL"])
def test_a_parameter_that_is_null(rejection: SendInvalid, name: str, value: str) -> None:
    problem = rejection("POST", f"/collections/COLLECTION/rebuild?{name}={value}")

    assert problem["errors"] == [{"path": f"$.{name}", "message": "The query parameter must not be null"}]


# -- collections --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        *("", "ab", "x" * 513, "..", "a..b", "a/b", "../../x", "127.0.0.1", "a b", "abc\\n", "a\\u0000b"),
        *("éàü", "\\ud800abc"),
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_a_bad_name(rejection: SendInvalid, bad: str) -> None:
    rejection("POST", "/collections", f'{{"name": "{bad}", "get_or_create": true}}')


@pytest.mark.parametrize(
    "members",
    [
        '"name": null',
        '"name": 7',
        '"name": ["abc"]',
        '"name": {}',
        '"metadata": {}',
        '"name": "COLLECTION-new", "metadata": []',
        '"name": "COLLECTION-new", "metadata": "text"',
        '"name": "COLLECTION-new", "embedding_provider": 7',
        '"name": "COLLECTION-new", "embedding_model": ["m"]',
        '"name": "COLLECTION-new", "embedding_model": "\\ud800"',
        '"name": "COLLECTION-new", "distance": "euclid"',
        '"name": "COLLECTION-new", "distance": "L2"',
        '"name": "COLLECTION-new", "distance": 7',
        '"name": "COLLECTION-new", "distance": ["l2"]',
        '"name": "COLLECTION-new", "get_or_create": "yes"',
        '"name": "COLLECTION-new", "get_or_create": 1',
        '"name": "COLLECTION-new", "metadata": {"hnsw:space": "euclid"}',
        '"name": "COLLECTION-new", "metadata": {"hnsw:space": 7}',
        '"name": "COLLECTION-new", "metadata": {"hnsw:space": true}',
    ],
)
def test_a_bad_collection(rejection: SendInvalid, members: str) -> None:
    problem = rejection("POST", "/collections", f"{{{members}}}")

    assert problem["detail"] == "The body is not valid JSON" or paths_of(problem)


@pytest.mark.parametrize("key", ["hnsw:M", "hnsw:construction_ef", "hnsw:search_ef", "hnsw:batch_size", "spann:x"])
@pytest.mark.parametrize("value", ["-1", "0", '"text"', "1.5", "true", str(2**62)])
def test_settings_of_the_index_in_metadata_are_stored_or_rejected(
    http: httpx.Client, new_name: str, key: str, value: str
) -> None:
    response = http.post("/collections", content=f'{{"name": "{new_name}", "metadata": {{"{key}": {value}}}}}')

    assert response.status_code in (201, 400), response.text
    if response.is_success:
        assert http.get(f"/collections/{new_name}").json()["metadata"] == {key: json.loads(value)}
        add(http, new_name, document("a"), document("b", embedding=[0, 1]))
        found = http.post(f"/collections/{new_name}/query", json={"query_embedding": [1, 0]})
        assert ids_of(found, "results") == ["a", "b"]
    else:
        problem_of(response, 400)


@pytest.mark.parametrize("metadata", ["null", "[]", '"text"', '{"hnsw:space": "x"}', '{"hnsw:space": 7}'])
@pytest.mark.parametrize("merge", ["true", "false"])
def test_bad_new_metadata(store_rejection: SendInvalid, metadata: str, merge: str) -> None:
    store_rejection("PUT", f"/collections/COLLECTION/metadata?merge={merge}", f'{{"metadata": {metadata}}}')


# -- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["0", "-1", "abc", "1.5", "", "9" * 400, "null", "1%00"])
@pytest.mark.parametrize("path", ["?", "/COLLECTION/documents?", "/COLLECTION/metadata-values?field=a&"])
def test_a_bad_limit(rejection: SendInvalid, path: str, limit: str) -> None:
    problem = rejection("GET", f"/collections{path}limit={limit}")

    assert "limit" in problem["detail"]


@pytest.mark.parametrize("offset", ["-1", "abc", "1.5", "", "9" * 400])
@pytest.mark.parametrize("path", ["/collections", "/collections/COLLECTION/documents"])
def test_a_bad_offset(rejection: SendInvalid, path: str, offset: str) -> None:
    problem = rejection("GET", f"{path}?offset={offset}")

    assert "offset" in problem["detail"]


@pytest.mark.parametrize("offset", [2**31 - 1, 2**31, 2**32, 2**53 - 1])
@pytest.mark.parametrize("path", ["/collections", "/collections/{}/documents"])
def test_a_huge_offset_gives_an_empty_page(http: httpx.Client, collection: str, path: str, offset: int) -> None:
    response = http.get(path.format(collection), params={"offset": offset})

    assert response.status_code == 200
    assert response.json()["count"] == 0


@pytest.mark.parametrize("include", ["everything", "embeddings", "", "documents", "embedding&include=everything"])
@pytest.mark.parametrize("path", ["documents", "documents/kept"])
def test_an_unknown_include(rejection: SendInvalid, path: str, include: str) -> None:
    problem = rejection("GET", f"/collections/COLLECTION/{path}?include={include}")

    assert "include" in problem["detail"]


@pytest.mark.parametrize("include", ['["everything"]', '"embedding"', "[7]", "{}", "true", '[["embedding"]]'])
@pytest.mark.parametrize("path", ["documents/filter", "query"])
def test_an_unknown_include_in_a_body(rejection: SendInvalid, path: str, include: str) -> None:
    problem = rejection(
        "POST", f"/collections/COLLECTION/{path}", f'{{"query_embedding": [1, 0], "include": {include}}}'
    )

    assert paths_of(problem)[0].startswith("$.include")


@pytest.mark.parametrize("path", ["documents?total=maybe", "documents?total=", "documents?total=2"])
def test_a_bad_total(rejection: SendInvalid, path: str) -> None:
    assert "total" in rejection("GET", f"/collections/COLLECTION/{path}")["detail"]


@pytest.mark.parametrize("merge", ["maybe", "", "2"])
def test_a_bad_merge(rejection: SendInvalid, merge: str) -> None:
    assert "merge" in rejection("PUT", f"/collections/COLLECTION/metadata?merge={merge}", '{"metadata": {}}')["detail"]


@pytest.mark.parametrize("field", ["field=", ""])
def test_a_bad_field(rejection: SendInvalid, field: str) -> None:
    assert "field" in rejection("GET", f"/collections/COLLECTION/metadata-values?{field}")["detail"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_empty_id(rejection: SendInvalid, method: str) -> None:
    assert "id" in rejection(method, "/collections/COLLECTION/documents?ids=")["detail"]


@pytest.mark.parametrize(
    "members",
    [
        '"limit": 0',
        '"limit": -1',
        '"limit": "10"',
        '"limit": 1.5',
        '"limit": null',
        '"limit": true',
        f'"limit": {HUGE}',
        '"offset": -1',
        '"offset": "0"',
        '"offset": 0.5',
        f'"offset": {HUGE}',
        '"ids": []',
        '"ids": "kept"',
        '"ids": [7]',
        '"ids": [null]',
        '"ids": [""]',
        '"ids": {}',
        f'"ids": [{SURROGATE}]',
        '"total": "false"',
        '"total": 0',
    ],
    ids=lambda text: text[:30],
)
def test_a_bad_filter_body(rejection: SendInvalid, members: str) -> None:
    rejection("POST", "/collections/COLLECTION/documents/filter", f"{{{members}}}")


@pytest.mark.parametrize("ids", ["[]", '"kept"', "[7]", "[null]", '[""]', "{}", "true", f"[{SURROGATE}]"])
def test_bad_ids_to_delete(rejection: SendInvalid, ids: str) -> None:
    rejection("POST", "/collections/COLLECTION/documents/delete", f'{{"ids": {ids}}}')


@pytest.mark.parametrize(
    "members",
    [
        '"top_k": 0',
        '"top_k": 1001',
        '"top_k": "5"',
        f'"top_k": {HUGE}',
        '"max_distance": "1"',
        '"max_distance": NaN',
        '"max_distance": []',
        '"max_distance": true',
        '"min_score": "1"',
        '"min_score": {}',
        '"min_score": Infinity',
        f'"min_score": -1{"0" * 400}',
    ],
    ids=lambda text: text[:30],
)
@pytest.mark.parametrize("path", ["/collections/COLLECTION/query", "/query"])
def test_a_bad_query(rejection: SendInvalid, path: str, members: str) -> None:
    rejection("POST", path, f'{{"collection": "COLLECTION", "query_embedding": [1, 0], {members}}}')


@pytest.mark.parametrize(
    "member",
    ['"collection": 7', *(f'"collections": {given}' for given in ("{}", '"COLLECTION"', "[7]", "[null]"))],
)
def test_bad_collections_to_query(rejection: SendInvalid, member: str) -> None:
    problem = rejection("POST", "/query", f'{{"query_embedding": [1, 0], {member}}}')

    assert paths_of(problem)[0].startswith("$.collection")


def test_too_many_collections_to_query(rejection: SendInvalid) -> None:
    problem = rejection("POST", "/query", json.dumps({"query_embedding": [1, 0], "collections": ["abc"] * 10_000}))

    assert paths_of(problem) == ["$.collections"]
