"""The contract's section "Conventions": formats, problems, embeddings, metadata."""

from __future__ import annotations

import base64
import json
import re
import struct
from typing import Any

import httpx
import msgspec
import pytest

from tests.support.documents import add, count_of, document, document_path, documents_path
from tests.support.problems import problem_of

pytestmark = pytest.mark.process

MSGPACK = "application/msgpack"
FLOATS = [0.5, -1.25, 3.0]
LITTLE_ENDIAN = struct.pack("<3f", *FLOATS)


def packed(http: httpx.Client, method: str, path: str, body: object) -> httpx.Response:
    """Send MessagePack."""
    return http.request(method, path, content=msgspec.msgpack.encode(body), headers={"Content-Type": MSGPACK})


def stored_embedding(http: httpx.Client, collection: str, document_id: str = "a") -> list[float]:
    found = http.get(document_path(collection, document_id), params={"include": "embedding"}).json()
    return [float(number) for number in found["embedding"]]


def post_metadata(http: httpx.Client, collection: str, metadata: object) -> httpx.Response:
    sent = {"id": "a", "text": "x", "embedding": [1, 0], "metadata": metadata}
    return http.post(documents_path(collection), content=json.dumps({"documents": [sent]}))


# -- JSON and MessagePack -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "accept", ["*/*", "application/json", "text/html", "application/json, application/msgpack;q=0.5"]
)
def test_responses_are_json_by_default(http: httpx.Client, collection: str, accept: str) -> None:
    response = http.get(f"/collections/{collection}", headers={"Accept": accept})

    assert response.headers["content-type"] == "application/json"
    assert response.json()["name"] == collection


def test_a_body_without_content_type_is_treated_as_json(http: httpx.Client, new_name: str) -> None:
    response = http.post("/collections", content=json.dumps({"name": new_name}))

    assert response.status_code == 201


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
def test_a_json_content_type_may_be_written_in_any_way(http: httpx.Client, new_name: str, content_type: str) -> None:
    response = http.post("/collections", content=json.dumps({"name": new_name}), headers={"Content-Type": content_type})

    assert response.status_code == 201


def test_messagepack_bodies_are_accepted(http: httpx.Client, new_name: str) -> None:
    created = packed(http, "POST", "/collections", {"name": new_name, "metadata": {"team": "docs"}})
    added = packed(http, "POST", documents_path(new_name), {"documents": [document("a", page=1)]})
    merged = packed(http, "PUT", f"/collections/{new_name}/metadata?merge=true", {"metadata": {"revision": 2}})
    listed = packed(http, "POST", f"{documents_path(new_name)}/filter", {"where": {"page": 1}})
    found = packed(http, "POST", f"/collections/{new_name}/query", {"query_embedding": [1, 0]})

    assert [response.status_code for response in (created, added, merged, listed, found)] == [201, 201, 200, 200, 200]
    assert merged.json()["metadata"] == {"team": "docs", "revision": 2}
    assert listed.json()["total"] == 1
    assert found.json()["count"] == 1


@pytest.mark.parametrize("accept", [MSGPACK, "application/x-msgpack", f"{MSGPACK}, application/json;q=0.5"])
def test_messagepack_is_returned_if_accept_prefers_it(http: httpx.Client, collection: str, accept: str) -> None:
    add(http, collection, document("a", page=1))

    response = http.get(documents_path(collection), headers={"Accept": accept})

    assert response.headers["content-type"] == MSGPACK
    assert msgspec.msgpack.decode(response.content) == {
        "documents": [{"id": "a", "text": "some text", "metadata": {"page": 1}}],
        "count": 1,
        "total": 1,
    }


@pytest.mark.parametrize("state", ["created", "exists"])
def test_creating_a_collection_returns_messagepack_if_accept_prefers_it(
    http: httpx.Client, new_name: str, state: str
) -> None:
    body = {"name": new_name, "get_or_create": True}
    if state == "exists":
        http.post("/collections", json=body)

    response = http.post("/collections", json=body, headers={"Accept": MSGPACK})

    assert response.headers["content-type"] == MSGPACK
    assert response.headers["location"] == f"/collections/{new_name}"
    assert msgspec.msgpack.decode(response.content)["status"] == state


def test_embeddings_in_messagepack_are_binaries_of_little_endian_float32(http: httpx.Client, collection: str) -> None:
    packed(
        http, "POST", documents_path(collection), {"documents": [{"id": "a", "text": "", "embedding": LITTLE_ENDIAN}]}
    )

    response = http.get(document_path(collection, "a"), params={"include": "embedding"}, headers={"Accept": MSGPACK})

    assert struct.unpack("<3f", msgspec.msgpack.decode(response.content)["embedding"]) == pytest.approx(FLOATS)


# -- problem documents --------------------------------------------------------------------------


def test_errors_are_problem_documents(http: httpx.Client) -> None:
    problem = problem_of(http.get("/collections/nobody-knows"), 404)

    assert problem == {
        "type": "about:blank",
        "title": "Collection not found",
        "status": 404,
        "code": "collection_not_found",
        "detail": "Collection 'nobody-knows' not found",
    }


def test_errors_name_the_fields_to_blame(http: httpx.Client, collection: str) -> None:
    sent = [document(f"{number}") for number in range(5)]
    del sent[3]["embedding"]

    problem = problem_of(http.post(documents_path(collection), json={"documents": sent}), 400)

    assert problem["errors"] == [
        {"path": "$.documents[3].embedding", "message": "All documents must include pre-computed embeddings"}
    ]


def test_errors_are_problem_documents_for_callers_of_messagepack_too(http: httpx.Client) -> None:
    problem_of(http.get("/collections/nobody-knows", headers={"Accept": MSGPACK}), 404)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/collections", {"name": 7}),
        ("PUT", "/collections/{}/metadata", {"metadata": 7}),
        ("POST", "/collections/{}/documents", {"documents": 7}),
        ("PUT", "/collections/{}/documents", {"documents": 7}),
        ("POST", "/collections/{}/documents/filter", {"limit": "many"}),
        ("POST", "/collections/{}/documents/delete", {"ids": 7}),
        ("POST", "/collections/{}/query", {"query_embedding": {}}),
        ("POST", "/query", {"query_embedding": {}}),
    ],
)
def test_malformed_input_is_400_and_not_422(
    http: httpx.Client, collection: str, method: str, path: str, body: object
) -> None:
    problem_of(http.request(method, path.format(collection), json=body), 400)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/collections", {"name": "{}", "get_or_create": True}),
        ("PUT", "/collections/{}/metadata", {"metadata": {}}),
        ("POST", "/collections/{}/documents", {"documents": [{**document(), "unknown": {}}]}),
        ("PUT", "/collections/{}/documents", {"documents": [{**document(), "unknown": {}}]}),
        ("POST", "/collections/{}/documents/filter", {}),
        ("POST", "/collections/{}/documents/delete", {"ids": ["a"]}),
        ("POST", "/collections/{}/query", {"query_embedding": [1, 0]}),
        ("POST", "/query", {"query_embedding": [1, 0], "collection": "{}"}),
    ],
)
def test_unknown_fields_are_ignored(
    http: httpx.Client, collection: str, method: str, path: str, body: dict[str, Any]
) -> None:
    named = {key: value.format(collection) if isinstance(value, str) else value for key, value in body.items()}

    response = http.request(method, path.format(collection), json={**named, "unknown": {"deep": [1, None]}})

    assert response.is_success, response.text


# -- embeddings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("embedding", [FLOATS, base64.b64encode(LITTLE_ENDIAN).decode()], ids=["numbers", "base64"])
def test_an_embedding_is_an_array_of_numbers_or_base64(http: httpx.Client, collection: str, embedding: object) -> None:
    response = http.post(
        documents_path(collection), json={"documents": [{"id": "a", "text": "x", "embedding": embedding}]}
    )

    assert response.status_code == 201
    assert stored_embedding(http, collection) == pytest.approx(FLOATS)


@pytest.mark.parametrize("embedding", [FLOATS, LITTLE_ENDIAN], ids=["numbers", "binary"])
def test_an_embedding_in_messagepack_may_be_binary(http: httpx.Client, collection: str, embedding: object) -> None:
    response = packed(
        http, "POST", documents_path(collection), {"documents": [{"id": "a", "text": "x", "embedding": embedding}]}
    )

    assert response.status_code == 201, response.text
    assert stored_embedding(http, collection) == pytest.approx(FLOATS)


@pytest.mark.parametrize("embedding", [FLOATS, base64.b64encode(LITTLE_ENDIAN).decode()], ids=["numbers", "base64"])
def test_a_query_embedding_is_an_array_of_numbers_or_base64(
    http: httpx.Client, collection: str, embedding: object
) -> None:
    add(http, collection, document("a", embedding=FLOATS))

    response = http.post(f"/collections/{collection}/query", json={"query_embedding": embedding})

    assert response.json()["results"][0]["score"] == pytest.approx(1)


@pytest.mark.parametrize(("sent", "stored"), [(0.1, 0.10000000149011612), (1e-50, 0.0), (16777217, 16777216.0)])
def test_the_numbers_of_an_embedding_become_float32(
    http: httpx.Client, collection: str, sent: float, stored: float
) -> None:
    add(http, collection, document("a", embedding=[1, sent]))

    assert stored_embedding(http, collection)[1] == pytest.approx(stored, rel=1e-9)


def test_an_embedding_has_the_dimension_of_its_collection(http: httpx.Client, collection: str) -> None:
    add(http, collection, document("a", embedding=[1, 2]))

    problem = problem_of(
        http.post(documents_path(collection), json={"documents": [document("b", embedding=[1, 2, 3])]}), 400
    )

    assert re.search(r"\b2\b.*\b3\b|\b3\b.*\b2\b", problem["detail"])
    assert count_of(http, collection) == 1


# -- metadata -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "text",
        "",
        "Grüße 🙂 \u0000 \u2028",
        0,
        2**63 - 1,
        -(2**63),
        2**53 + 1,
        1.5,
        1.0,
        1e308,
        5e-324,
        True,
        False,
        ["a", "b"],
        [1, 2, 2**63 - 1],
        [1.5, 2.0],
        [True, False],
        ["one"],
    ],
    ids=repr,
)
def test_metadata_values_come_back_as_they_were_sent(http: httpx.Client, collection: str, value: object) -> None:
    assert post_metadata(http, collection, {"field": value}).status_code == 201

    found = http.get(document_path(collection, "a")).json()["metadata"]

    assert repr(found) == repr({"field": value})  # compares the types, too: 1 is not True, and 1.0 is not 1


@pytest.mark.parametrize("value", ["text", "", 2**63 - 1, -(2**63), 1.5, 1.0, 1e308, True, False], ids=repr)
def test_collection_metadata_values_come_back_as_they_were_sent(
    http: httpx.Client, new_name: str, value: object
) -> None:
    assert http.post("/collections", json={"name": new_name, "metadata": {"field": value}}).status_code == 201

    found = http.get(f"/collections/{new_name}").json()["metadata"]

    assert repr(found) == repr({"field": value})


@pytest.mark.parametrize("key", ["a b", "a.b", "ключ", "chroma", "x#y", "document", "id", "ragstore", "a" * 1000])
def test_metadata_keys_may_be_any_other_text(http: httpx.Client, collection: str, key: str) -> None:
    assert post_metadata(http, collection, {key: 1}).status_code == 201

    found = http.post(f"{documents_path(collection)}/filter", json={"where": {key: 1}}).json()

    assert found["documents"][0]["metadata"] == {key: 1}


def test_null_in_document_metadata_means_absent(http: httpx.Client, collection: str) -> None:
    assert post_metadata(http, collection, {"a": None, "b": 1}).status_code == 201

    assert http.get(document_path(collection, "a")).json()["metadata"] == {"b": 1}


@pytest.mark.parametrize("metadata", [{}, None, {"a": None}], ids=repr)
def test_document_metadata_may_be_empty(http: httpx.Client, collection: str, metadata: object) -> None:
    assert post_metadata(http, collection, metadata).status_code == 201

    assert http.get(document_path(collection, "a")).json()["metadata"] == {}


def test_null_in_collection_metadata_means_absent(http: httpx.Client, new_name: str) -> None:
    response = http.post("/collections", json={"name": new_name, "metadata": {"a": None, "b": 1}})

    assert response.json()["metadata"] == {"b": 1}
