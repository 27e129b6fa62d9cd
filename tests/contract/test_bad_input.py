"""Malformed input: a problem document with a 4xx and the path of the field, and nothing is written.

A request that is rejected before it reaches a store is tested over one store (`rejection`), the rest over both.
"""

from __future__ import annotations

import httpx
import msgspec
import pytest

from tests.contract.conftest import SendInvalid
from tests.support.documents import add, document, documents_path
from tests.support.malformed_json import DEPTHS, WRITES, documents_body, nested
from tests.support.problems import problem_of

pytestmark = pytest.mark.process

MSGPACK = "application/msgpack"

BODIES = [
    ("POST", "/collections"),
    ("PUT", "/collections/COLLECTION/metadata"),
    ("POST", "/collections/COLLECTION/documents"),
    ("PUT", "/collections/COLLECTION/documents"),
    ("POST", "/collections/COLLECTION/documents/filter"),
    ("POST", "/collections/COLLECTION/documents/delete"),
    ("POST", "/collections/COLLECTION/query"),
    ("POST", "/query"),
]

# -- malformed bodies ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        b"{",
        b'{"name": "abc"',
        b'{"documents": [{"text": "x", "embedding": [1, 0',
        b"{'name': 'abc'}",
        b"[1,]",
        b'{"a": 1} {"b": 2}',
        b"\xff\xfe\x00",
        b"\x00",
        b"\xef\xbb\xbf{}",
        b"<a/>",
        b"name=abc",
    ],
    ids=ascii,
)
@pytest.mark.parametrize(("method", "path"), BODIES)
def test_a_body_that_is_not_json(rejection: SendInvalid, method: str, path: str, body: bytes) -> None:
    rejection(method, path, body)


@pytest.mark.parametrize("body", [b"[]", b"null", b"7", b'"text"', b"true", b"[{}]", b"[[[]]]"], ids=ascii)
@pytest.mark.parametrize(("method", "path"), BODIES)
def test_a_body_that_is_not_an_object(rejection: SendInvalid, method: str, path: str, body: bytes) -> None:
    rejection(method, path, body)


@pytest.mark.parametrize(
    "body", [b"\xc1", b"\x81", b"\x81\xa4name", b"no messagepack", b"\xdf\xff\xff\xff\xff", b"{}"], ids=ascii
)
@pytest.mark.parametrize(("method", "path"), BODIES)
def test_a_body_that_is_not_messagepack(rejection: SendInvalid, method: str, path: str, body: bytes) -> None:
    rejection(method, path, body, MSGPACK)


@pytest.mark.parametrize(
    "path", [path for method, path in BODIES if not path.endswith("/filter") and not path.endswith("/documents")]
)
def test_a_missing_body(rejection: SendInvalid, path: str) -> None:
    rejection("PUT" if path.endswith("/metadata") else "POST", path)


@pytest.mark.parametrize("method", WRITES)
def test_a_missing_body_has_no_documents(rejection: SendInvalid, method: str) -> None:
    assert rejection(method, "/collections/COLLECTION/documents")["detail"] == "Documents array is required"


# -- nesting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"where":', "}")], ids=["lists", "objects"])
@pytest.mark.parametrize(("method", "path"), BODIES)
def test_a_deep_body(rejection: SendInvalid, method: str, path: str, opening: str, closing: str, depth: int) -> None:
    rejection(method, path, nested(depth, opening, closing))


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("member", ["embedding", "metadata", "text", "id"])
@pytest.mark.parametrize("method", WRITES)
def test_a_deep_member_of_a_document(store_rejection: SendInvalid, method: str, member: str, depth: int) -> None:
    whole = {"text": '"x"', "embedding": "[1, 0]", member: nested(depth, '{"a":', "}")}
    text = ", ".join(f'"{key}": {value}' for key, value in whole.items())

    store_rejection(method, "/collections/COLLECTION/documents", documents_body(f"{{{text}}}"))


@pytest.mark.parametrize("depth", [*DEPTHS])
def test_a_deep_unknown_member_is_ignored_or_rejected(http: httpx.Client, collection: str, depth: int) -> None:
    body = f'{{"documents": [{{"text": "x", "embedding": [1, 0], "unknown": {nested(depth)}}}]}}'

    response = http.post(documents_path(collection), content=body)

    assert response.status_code in (201, 400)
    assert http.get(documents_path(collection)).json()["total"] == (1 if response.is_success else 0)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("path", ["/collections", "/collections/COLLECTION/metadata"])
def test_deep_collection_metadata(rejection: SendInvalid, path: str, depth: int) -> None:
    method = "POST" if path == "/collections" else "PUT"

    rejection(method, path, f'{{"name": "deep", "metadata": {{"a": {nested(depth)}}}}}')


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    ("opening", "closing"),
    [('{"$and":[', "]}"), ('{"$or":[{"a":1},', "]}"), ('{"a":', "}"), ("[", "]")],
    ids=["and", "or", "fields", "lists"],
)
@pytest.mark.parametrize("path", ["documents/filter", "documents/delete", "query"])
def test_a_deep_where(rejection: SendInvalid, path: str, opening: str, closing: str, depth: int) -> None:
    where = nested(depth, opening, closing, '{"a": 1}')

    rejection("POST", f"/collections/COLLECTION/{path}", f'{{"query_embedding": [1, 0], "where": {where}}}')


@pytest.mark.parametrize("depth", [100, 1000])
@pytest.mark.parametrize("parameter", ["where", "where_document"])
def test_a_deep_filter_in_a_url(rejection: SendInvalid, parameter: str, depth: int) -> None:
    text = str(httpx.QueryParams({parameter: nested(depth, '{"$or":[', "]}", "{}")}))

    problem = rejection("GET", f"/collections/COLLECTION/documents?{text}")

    assert problem["detail"].startswith(f"Invalid '{parameter}' filter: ")


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_deep_messagepack_body(rejection: SendInvalid, depth: int) -> None:
    rejection("POST", "/collections/COLLECTION/documents", b"\x91" * depth + b"\x01", MSGPACK)
    rejection("POST", "/collections/COLLECTION/query", b"\x81\xa5where" + b"\x81\xa1a" * depth + b"\x01", MSGPACK)


# -- unusual text -------------------------------------------------------------------------------


@pytest.mark.parametrize("member", ["id", "text"])
@pytest.mark.parametrize("text", ["\\ud800", "a\\udfffb", "\\ud83d", "\\ude00\\ud83d"])
@pytest.mark.parametrize("method", WRITES)
def test_a_lone_surrogate(rejection: SendInvalid, method: str, member: str, text: str) -> None:
    whole = {"text": '"x"', "embedding": "[1, 0]", member: f'"{text}"'}
    members = ", ".join(f'"{key}": {value}' for key, value in whole.items())

    rejection(method, "/collections/COLLECTION/documents", documents_body(f"{{{members}}}"))


def test_a_surrogate_in_messagepack(store_rejection: SendInvalid) -> None:
    body = msgspec.msgpack.encode({"documents": [{"text": "abc", "embedding": [1, 0]}]})

    store_rejection("POST", "/collections/COLLECTION/documents", body.replace(b"abc", b"\xed\xa0\x80"), MSGPACK)


def test_a_nul_is_a_character_like_others(http: httpx.Client, collection: str) -> None:
    sent = {"id": "i\0d", "text": "te\0xt", "embedding": [1, 0], "metadata": {"k\0ey": "va\0lue", "list": ["\0", "a"]}}
    http.post(documents_path(collection), json={"documents": [sent]}).raise_for_status()
    add(http, collection, document("id", text="text", key="value"))

    fields = {"where": {"k\0ey": "va\0lue"}, "where_document": {"$contains": "te\0x"}}
    listed = http.post(f"{documents_path(collection)}/filter", json=fields).json()

    assert listed["documents"] == [{key: sent[key] for key in ("id", "text", "metadata")}]


@pytest.mark.parametrize("part", ["%FF", "%ED%A0%80", "%C3", "a%FFb", "%80"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "{}"), ("DELETE", "{}"), ("GET", "{}/documents"), ("GET", "COLLECTION/documents/{}")],
)
def test_invalid_utf8_in_a_path(rejection: SendInvalid, method: str, path: str, part: str) -> None:
    assert "UTF-8" in rejection(method, f"/collections/{path.format(part)}")["detail"]


@pytest.mark.parametrize("parameter", ["ids=%FF", "ids=a&ids=%C3", "where=%7B%22a%22%3A%22%FF%22%7D", "ids=a&%FF=1"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_invalid_utf8_in_a_parameter(rejection: SendInvalid, method: str, parameter: str) -> None:
    assert "UTF-8" in rejection(method, f"/collections/COLLECTION/documents?{parameter}")["detail"]


def test_invalid_utf8_in_a_field(rejection: SendInvalid) -> None:
    assert "UTF-8" in rejection("GET", "/collections/COLLECTION/metadata-values?field=%FF")["detail"]


@pytest.mark.parametrize(
    "body", [b'{"text": "\xff", "embedding": [1, 0]}', b'{"text": "\xed\xa0\x80", "embedding": [1, 0]}']
)
def test_invalid_utf8_in_a_body(store_rejection: SendInvalid, body: bytes) -> None:
    problem = store_rejection("POST", "/collections/COLLECTION/documents", b'{"documents": [' + body + b"]}")

    assert problem["detail"] == "The body is not valid JSON: $.documents[0]"


@pytest.mark.parametrize(
    "impossible", ["a%2Fb", "%2E%2E", "%2e%2e%2f%2e%2e", "127.0.0.1", "%20", "%00", "ab", "x" * 600]
)
@pytest.mark.parametrize("path", ["", "/documents", "/documents/a", "/metadata-values?field=a"])
def test_a_path_with_an_impossible_name(http: httpx.Client, path: str, impossible: str) -> None:
    problem_of(http.get(f"/collections/{impossible}{path}"), 404)


@pytest.mark.parametrize("accept", [b"", b"nonsense", b"text/*;q=x", b"application/msgpack;q=", b";;;", b"\xff"])
def test_an_odd_accept_header_does_not_fail(http: httpx.Client, accept: bytes) -> None:
    assert http.get("/", headers={b"Accept": accept}).status_code == 200


@pytest.mark.parametrize("parameters", ["; charset=utf-16", ";charset=nonsense", ";;"])
def test_parameters_of_a_content_type_are_ignored(http: httpx.Client, new_name: str, parameters: str) -> None:
    headers = {"Content-Type": f"application/json{parameters}"}

    response = http.post("/collections", content=f'{{"name": "{new_name}"}}', headers=headers)

    assert response.status_code == 201
