"""Invalid documents: 400 with the path of the field, and nothing is written."""

from __future__ import annotations

import base64
import struct

import msgspec
import pytest

from tests.contract.conftest import SendInvalid
from tests.support.documents import document
from tests.support.malformed_json import HUGE, SURROGATE, WRITES, with_embedding, with_metadata
from tests.support.problems import paths_of

pytestmark = pytest.mark.process

MSGPACK = "application/msgpack"

# -- embeddings ---------------------------------------------------------------------------------


def floats(*numbers: float) -> str:
    return '"' + base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode() + '"'


BAD_EMBEDDINGS = [
    "[]",
    '""',
    "{}",
    "7",
    "true",
    '["1", "2"]',
    "[1, null]",
    "[1, true]",
    "[1, [2]]",
    "[[1, 0]]",
    "[1, {}]",
    "[1, 1e39]",
    "[-1e39, 1]",
    "[1, 1e309]",
    "[1, -1e999]",
    "[1, NaN]",
    "[1, Infinity]",
    f"[1, {HUGE}]",
    f"[1, {10**39}]",
    f"[1, {SURROGATE}]",
    SURROGATE,
    '"no base64!"',
    '"AAA"',
    '"AAAA"',
    '"AACAPwAAAAA"',
    '"\\u0000"',
    floats(1, float("nan")),
    floats(1, float("inf")),
    floats(float("-inf"), 1),
]


@pytest.mark.parametrize("embedding", BAD_EMBEDDINGS, ids=lambda text: text[:30])
@pytest.mark.parametrize("method", WRITES)
def test_a_bad_embedding(store_rejection: SendInvalid, method: str, embedding: str) -> None:
    problem = store_rejection(method, "/collections/COLLECTION/documents", with_embedding(embedding))

    if "errors" in problem:
        assert paths_of(problem)[0].startswith("$.documents[1].embedding")
    else:
        assert problem["detail"] == "The body is not valid JSON"


@pytest.mark.parametrize("embedding", [*BAD_EMBEDDINGS, "null"], ids=lambda text: text[:30])
def test_a_bad_query_embedding(rejection: SendInvalid, embedding: str) -> None:
    problem = rejection("POST", "/collections/COLLECTION/query", f'{{"query_embedding": {embedding}}}')

    if "errors" in problem:
        assert paths_of(problem)[0].startswith("$.query_embedding")
    else:
        assert problem["detail"] == "The body is not valid JSON"


@pytest.mark.parametrize("embedding", [b"", b"\x00", b"\x00" * 7, struct.pack("<2f", 1, float("nan"))], ids=repr)
def test_a_bad_binary_embedding(store_rejection: SendInvalid, embedding: bytes) -> None:
    sent = msgspec.msgpack.encode({"documents": [document("a"), {"text": "x", "embedding": embedding}]})

    problem = store_rejection("POST", "/collections/COLLECTION/documents", sent, MSGPACK)

    assert paths_of(problem)[0].startswith("$.documents[1].embedding")


@pytest.mark.parametrize("number", ["1e39", "-3.5e38", str(10**39)])
def test_a_number_beyond_float32_is_reported_with_its_index(store_rejection: SendInvalid, number: str) -> None:
    problem = store_rejection("POST", "/collections/COLLECTION/documents", with_embedding(f"[1, {number}]"))

    assert "finite as float32" in problem["detail"]
    assert paths_of(problem) == ["$.documents[1].embedding[1]"]


# -- metadata -----------------------------------------------------------------------------------

BAD_VALUES = [
    *("{}", '{"b": 1}', "[]", "[null]", "[[1]]", "[{}]", '[1, "a"]', "[1, true]", '["a", null]'),
    *(str(2**63), str(-(2**63) - 1), f"[1, {2**64}]", HUGE, "1e309", "NaN", SURROGATE),
]
BAD_KEYS = ["", "chroma:document", "chroma:", "#", "#hash", "$", "$eq"]


@pytest.mark.parametrize("value", BAD_VALUES, ids=lambda text: text[:30])
@pytest.mark.parametrize("method", WRITES)
def test_a_bad_metadata_value(store_rejection: SendInvalid, method: str, value: str) -> None:
    problem = store_rejection(
        method, "/collections/COLLECTION/documents", with_metadata(f'{{"good": 1, "bad": {value}}}')
    )

    if "errors" in problem:
        assert paths_of(problem)[0].startswith("$.documents[1].metadata")
    else:
        assert problem["detail"] == "The body is not valid JSON"


@pytest.mark.parametrize("value", [*BAD_VALUES, "[1]", '["a"]', "[1.5]", "[true]"], ids=lambda text: text[:30])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/collections"), ("PUT", "/collections/COLLECTION/metadata")], ids=["POST", "PUT"]
)
def test_a_bad_collection_metadata_value(rejection: SendInvalid, method: str, path: str, value: str) -> None:
    problem = rejection(method, path, f'{{"name": "COLLECTION-new", "metadata": {{"good": 1, "bad": {value}}}}}')

    if "errors" in problem:
        assert paths_of(problem)[0].startswith("$.metadata")
    else:
        assert problem["detail"] == "The body is not valid JSON"


@pytest.mark.parametrize("key", [*BAD_KEYS, "\\ud800"], ids=ascii)
@pytest.mark.parametrize("method", WRITES)
def test_a_bad_metadata_key(store_rejection: SendInvalid, method: str, key: str) -> None:
    store_rejection(method, "/collections/COLLECTION/documents", with_metadata(f'{{"good": 1, "{key}": 1}}'))


@pytest.mark.parametrize("key", [*BAD_KEYS, "\\ud800"], ids=ascii)
@pytest.mark.parametrize("path", ["", "/COLLECTION/metadata?merge=true", "/COLLECTION/metadata"])
def test_a_bad_collection_metadata_key(rejection: SendInvalid, path: str, key: str) -> None:
    body = f'{{"name": "COLLECTION-new", "metadata": {{"good": 1, "{key}": 1}}}}'

    rejection("PUT" if path else "POST", f"/collections{path}", body)


@pytest.mark.parametrize("metadata", ["[]", "7", '"text"', "true"])
@pytest.mark.parametrize("method", WRITES)
def test_metadata_that_is_not_an_object(store_rejection: SendInvalid, method: str, metadata: str) -> None:
    problem = store_rejection(method, "/collections/COLLECTION/documents", with_metadata(metadata))

    assert paths_of(problem) == ["$.documents[1].metadata"]


def test_metadata_keys_of_messagepack_are_strings(store_rejection: SendInvalid) -> None:
    sent = {"documents": [{"text": "x", "embedding": [1, 0], "metadata": {7: 1}}]}

    store_rejection("POST", "/collections/COLLECTION/documents", msgspec.msgpack.encode(sent), MSGPACK)


@pytest.mark.parametrize("value", [b"bytes", msgspec.msgpack.Ext(5, b"x")], ids=["binary", "extension"])
def test_metadata_values_of_messagepack_are_those_of_json(store_rejection: SendInvalid, value: object) -> None:
    sent = {"documents": [{"text": "x", "embedding": [1, 0], "metadata": {"a": value}}]}

    store_rejection("POST", "/collections/COLLECTION/documents", msgspec.msgpack.encode(sent), MSGPACK)


@pytest.mark.parametrize("method", WRITES)
def test_an_embedding_beyond_the_maximum_dimension(store_rejection: SendInvalid, method: str) -> None:
    sent = msgspec.msgpack.encode({"documents": [{"text": "x", "embedding": b"\0\0\x80?" * 65_537}]})

    problem = store_rejection(method, "/collections/COLLECTION/documents", sent, MSGPACK)

    assert "at most 65536 numbers" in problem["detail"]
    assert paths_of(problem) == ["$.documents[0].embedding"]
