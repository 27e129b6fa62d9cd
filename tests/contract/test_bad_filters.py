"""Invalid filters, and requests beyond a limit: 400 with the path of the field, and nothing is written."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.contract.conftest import SendInvalid
from tests.support.documents import add, document, documents_path, ids_of
from tests.support.malformed_json import HUGE, SURROGATE, WRITES
from tests.support.problems import paths_of

pytestmark = pytest.mark.process

# -- filters ------------------------------------------------------------------------------------

BAD_WHERE = [
    "[]",
    "7",
    '"text"',
    "true",
    '{"a": null}',
    '{"a": []}',
    '{"a": [1]}',
    '{"a": {}}',
    '{"a": {"b": 1}}',
    '{"a": {"$like": "x"}}',
    '{"a": {"$eq": null}}',
    '{"a": {"$eq": [1]}}',
    '{"a": {"$eq": {}}}',
    '{"a": {"$gt": "x"}}',
    '{"a": {"$lte": true}}',
    '{"a": {"$in": []}}',
    '{"a": {"$in": 1}}',
    '{"a": {"$in": [1, "x"]}}',
    '{"a": {"$in": [1, true]}}',
    '{"a": {"$nin": [[1]]}}',
    '{"a": {"$nin": [null]}}',
    '{"a": {"$contains": ["x"]}}',
    '{"a": {"$contains": null}}',
    '{"a": {"$gt": 1, "$like": 2}}',
    '{"a": {"$not": {"$eq": 1}}}',
    '{"$and": []}',
    '{"$and": {}}',
    '{"$and": 1}',
    '{"$and": [1]}',
    '{"$and": [null]}',
    '{"$or": [[]]}',
    '{"$or": [{"a": 1}, {"b": {"$like": 1}}]}',
    '{"$not": {"a": 1}}',
    '{"$contains": "x"}',
    '{"$eq": 1}',
    '{"": 1}',
    '{"chroma:document": "x"}',
    '{"#document": "x"}',
    '{"#": 1}',
    f'{{"a": {2**63}}}',
    f'{{"a": {{"$lt": {-(2**63) - 1}}}}}',
    f'{{"a": {{"$in": [1, {2**64}]}}}}',
]


@pytest.mark.parametrize("where", BAD_WHERE)
@pytest.mark.parametrize("path", ["documents/filter", "documents/delete", "query"])
def test_a_bad_where_in_a_body(rejection: SendInvalid, path: str, where: str) -> None:
    problem = rejection("POST", f"/collections/COLLECTION/{path}", f'{{"query_embedding": [1, 0], "where": {where}}}')

    assert problem["detail"].startswith("Invalid 'where' filter: ")
    assert paths_of(problem)[0].startswith("$.where")


@pytest.mark.parametrize("where", [*BAD_WHERE, "null"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_bad_where_in_a_url(rejection: SendInvalid, method: str, where: str) -> None:
    problem = rejection(method, f"/collections/COLLECTION/documents?{httpx.QueryParams({'where': where})}")

    assert problem["detail"].startswith("Invalid 'where' filter: ")
    assert paths_of(problem)[0].startswith("$.where")


@pytest.mark.parametrize(
    "where",
    [*(f'{{"a": {value}}}' for value in ("NaN", "1e309", HUGE, SURROGATE)), f"{{{SURROGATE}: 1}}"],
    ids=lambda text: text[:30],
)
def test_a_where_that_is_almost_json(rejection: SendInvalid, where: str) -> None:
    rejection("GET", f"/collections/COLLECTION/documents?{httpx.QueryParams({'where': where})}")
    rejection("POST", "/collections/COLLECTION/documents/filter", f'{{"where": {where}}}')
    rejection("POST", "/collections/COLLECTION/query", f'{{"query_embedding": [1, 0], "where": {where}}}')


BAD_WHERE_DOCUMENT = [
    "[]",
    "7",
    '"text"',
    '{"text": "x"}',
    '{"$contains": 7}',
    '{"$contains": ""}',
    '{"$contains": null}',
    '{"$contains": ["x"]}',
    '{"$contains": {"$eq": "x"}}',
    '{"$like": "x"}',
    '{"$eq": "x"}',
    '{"$and": []}',
    '{"$and": "x"}',
    '{"$or": [1]}',
    '{"$or": [{"$contains": "x"}, {"$contains": 7}]}',
    '{"$regex": 7}',
    '{"$regex": ""}',
    '{"$regex": "("}',
    '{"$regex": "[a-"}',
    '{"$regex": "*"}',
    '{"$regex": "a{2,1}"}',
    '{"$regex": "(?<=x)y"}',
    '{"$regex": "(a)\\\\1"}',
    '{"$regex": "\\\\p{Nonsense}"}',
    '{"$regex": "(?P<n>a)(?P<n>b)"}',
    '{"$not_regex": "["}',
    '{"$and": [{"$contains": "x"}, {"$regex": "("}]}',
    '{"$regex": "a{1000}{1000}{1000}"}',
]


@pytest.mark.parametrize("where_document", BAD_WHERE_DOCUMENT)
@pytest.mark.parametrize("path", ["documents/filter", "query"])
def test_a_bad_where_document(store_rejection: SendInvalid, path: str, where_document: str) -> None:
    problem = store_rejection(
        "POST", f"/collections/COLLECTION/{path}", f'{{"query_embedding": [1, 0], "where_document": {where_document}}}'
    )

    assert problem["detail"].startswith("Invalid 'where_document' filter: ")
    assert paths_of(problem)[0].startswith("$.where_document")


# -- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["documents/filter", "documents/delete"])
def test_40000_ids(rejection: SendInvalid, path: str) -> None:
    ids = ["kept", *(f"id-{number}" for number in range(40_000))]

    problem = rejection("POST", f"/collections/COLLECTION/{path}", json.dumps({"ids": ids}))

    assert paths_of(problem) == ["$.ids"]
    assert "10000" in problem["detail"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_thousands_of_ids_in_a_url(rejection: SendInvalid, method: str) -> None:
    text = "&".join(f"ids=kept-{number}" for number in range(3000))

    problem = rejection(method, f"/collections/COLLECTION/documents?{text}")

    assert paths_of(problem) == ["$.ids"]


@pytest.mark.parametrize("method", WRITES)
def test_40000_documents(rejection: SendInvalid, method: str) -> None:
    many = [document(f"id-{number}") for number in range(40_000)]

    problem = rejection(method, "/collections/COLLECTION/documents", json.dumps({"documents": many}))

    assert paths_of(problem) == ["$.documents"]
    assert "At most 5461 documents" in problem["detail"]


@pytest.mark.parametrize("operator", ["$in", "$nin"])
@pytest.mark.parametrize("path", ["documents/filter", "documents/delete", "query"])
def test_33000_values_in_a_filter(rejection: SendInvalid, path: str, operator: str) -> None:
    where = {"kept": {operator: list(range(33_000))}}

    body = json.dumps({"query_embedding": [1, 0], "where": where})
    problem = rejection("POST", f"/collections/COLLECTION/{path}", body)

    assert problem["detail"].startswith("Invalid 'where' filter: more than ")


@pytest.mark.parametrize("operator", ["$and", "$or"])
@pytest.mark.parametrize("path", ["documents/filter", "documents/delete", "query"])
def test_1000_clauses_in_a_filter(rejection: SendInvalid, path: str, operator: str) -> None:
    where = {operator: [{"kept": number} for number in range(1000)]}

    body = json.dumps({"query_embedding": [1, 0], "where": where})
    problem = rejection("POST", f"/collections/COLLECTION/{path}", body)

    assert problem["detail"].startswith("Invalid 'where' filter: more than ")


def test_a_long_operand_of_where_document(rejection: SendInvalid) -> None:
    body = json.dumps({"where_document": {"$contains": "x" * 100_000}})

    problem = rejection("POST", "/collections/COLLECTION/documents/filter", body)

    assert problem["detail"].startswith("Invalid 'where_document' filter: ")


def deep_where(depth: int) -> dict[str, Any]:
    return {"$and": [deep_where(depth - 1), {"n": 1}]} if depth else {"n": 1}


LARGE: dict[str, dict[str, Any]] = {
    "values": {"n": {"$in": list(range(5000))}},
    "any of": {"$or": [{"n": number} for number in range(450)]},
    "all of": {"$and": [{"n": {"$ne": 7}}] * 450},
    "deep": deep_where(30),
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_filter_is_accepted(http: httpx.Client, collection: str, kind: str) -> None:
    add(http, collection, document("a", n=1), document("b", n=2))
    ids = ["a", *(f"id-{number}" for number in range(9_999))]

    response = http.post(f"{documents_path(collection)}/filter", json={"ids": ids, "where": LARGE[kind]})

    assert ids_of(response) == ["a"]
