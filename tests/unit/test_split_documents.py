"""Large bodies are split into the documents that a decoder of the whole body finds, and bad ones are rejected early."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstore.errors import BatchTooLarge
from ragstore.kit.decoding import JSON, MSGPACK
from ragstore.kit.errors import InvalidRequest
from ragstore.kit.time_slices import run_whole
from ragstore.model.large_bodies import split_documents as module
from ragstore.model.large_bodies.split_documents import TooLong, end_of_value, split_documents

MAX = 50

ENCODED: dict[str, Callable[[object], bytes]] = {
    JSON: lambda value: json.dumps(value).encode(),
    MSGPACK: msgspec.msgpack.encode,
}
DECODED: dict[str, Callable[[bytes | memoryview], Any]] = {JSON: msgspec.json.decode, MSGPACK: msgspec.msgpack.decode}

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def split(content: bytes, format_: str, max_documents: int = MAX) -> list[Any]:
    return [DECODED[format_](document) for document in run_whole(split_documents(content, format_, max_documents))]


@pytest.mark.parametrize("format_", ENCODED)
@given(
    documents=st.lists(VALUES, min_size=1, max_size=20),
    before=st.dictionaries(st.text(max_size=9).filter(lambda key: key != "documents"), VALUES, max_size=3),
    after=st.dictionaries(st.text(max_size=9).filter(lambda key: key != "documents"), VALUES, max_size=3),
)
def test_the_documents_are_those_of_the_whole_body(
    format_: str, documents: list[Any], before: dict[str, Any], after: dict[str, Any]
) -> None:
    content = ENCODED[format_]({**before, "documents": documents, **after})

    assert split(content, format_) == DECODED[format_](content)["documents"]


@given(documents=st.lists(VALUES, min_size=1, max_size=20), space=st.text(" \t\r\n", max_size=9))
def test_whitespace_may_be_anywhere(documents: list[Any], space: str) -> None:
    values = f"{space},{space}".join(json.dumps(document) for document in documents)
    content = f'{space}{{{space}"documents"{space}:{space}[{space}{values}{space}]{space}}}{space}'.encode()

    assert split(content, JSON) == documents


@pytest.mark.parametrize("format_", ENCODED)
@given(content=st.data())
def test_a_damaged_body_is_rejected_as_a_whole_or_read_as_by_a_decoder(format_: str, content: st.DataObject) -> None:
    whole = bytearray(ENCODED[format_]({"a": 1, "documents": [{"x": "y"}, [1, 2], "text"], "b": None}))
    index = content.draw(st.integers(0, len(whole) - 1))
    whole[index] = content.draw(st.integers(0, 255))
    damaged = bytes(whole[: content.draw(st.integers(index, len(whole)))])

    try:
        found = split(damaged, format_)
    except (InvalidRequest, UnicodeError, msgspec.DecodeError):
        return
    assert found == DECODED[format_](damaged)["documents"]


@pytest.mark.parametrize(
    "content",
    [
        *(
            b'{"documents":[1',
            b'{"documents":[1]',
            b'{"documents":[1]}}',
            b'{"documents":[1] "a":2}',
            b'{"documents":[1],}',
        ),
        *(
            b'{"documents":[1,]}',
            b'{"documents":[,1]}',
            b'{"documents" [1]}',
            b'{,"documents":[1]}',
            b"{documents:[1]}",
        ),
        *(
            b"",
            b"[1]",
            b"{}",
            b'{"documents":[]}',
            b'{"documents":{}}',
            b'{"documents":null}',
            b'{1:2,"documents":[1]}',
        ),
    ],
    ids=ascii,
)
def test_what_is_no_object_with_documents_is_rejected(content: bytes) -> None:
    with pytest.raises(InvalidRequest):
        split(content, JSON)


def test_the_last_of_several_lists_counts_as_in_a_decoder() -> None:
    assert split(b'{"documents":[1,2],"documents":[3]}', JSON) == [3]


def test_documents_are_counted_before_they_are_read() -> None:
    with pytest.raises(BatchTooLarge, match="this one has more"):
        split(b'{"documents":[' + b"1," * MAX + b"not even JSON", JSON)
    with pytest.raises(BatchTooLarge, match="this one has 4000000000"):
        split(b"\x81\xa9documents\xdd" + (4_000_000_000).to_bytes(4, "big"), MSGPACK)


@pytest.mark.parametrize("format_", ENCODED)
def test_fields_beside_the_documents_are_limited(format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FIELD_BYTES", 100)
    monkeypatch.setattr(module, "MAX_FIELDS", 10)

    with pytest.raises(InvalidRequest, match="must not be larger than 100 bytes"):
        split(ENCODED[format_]({"x": "a" * 200, "documents": [1]}), format_)
    with pytest.raises(InvalidRequest, match="must not have more than 10 fields"):
        split(ENCODED[format_]({**dict.fromkeys("abcdefghij"), "documents": [1]}), format_)


@pytest.mark.parametrize("format_", ENCODED)
def test_a_document_beyond_the_limit_is_named(format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DOCUMENT_BYTES", 100)

    with pytest.raises(InvalidRequest, match=r"must not be larger than 100 bytes: \$\.documents\[1\]"):
        split(ENCODED[format_]({"documents": ["a", "b" * 200, "c"]}), format_)


@pytest.mark.parametrize("value", ['"text"', "[1, 2, {}]", "12.5e3", "true", '{"a": "\\\\"}', "null"])
def test_msgspec_reports_where_a_value_of_json_ends(value: str) -> None:
    content = f'   {value}  , "rest" and more'.encode()

    assert content[end_of_value(memoryview(content), 0, 100, JSON) :] == b', "rest" and more'


@pytest.mark.parametrize("value", ["text", [1, 2, {}], 12.5, True, {"a": b"bytes"}, None])
def test_msgspec_reports_where_a_value_of_messagepack_ends(value: object) -> None:
    encoded = msgspec.msgpack.encode(value)

    assert end_of_value(memoryview(encoded + b"\x01\x02"), 0, 100, MSGPACK) == len(encoded)


@given(value=VALUES, limit=st.integers(1, 50))
def test_a_value_is_too_long_exactly_when_the_limit_cuts_it(value: object, limit: int) -> None:
    for format_, encode in ENCODED.items():
        encoded = encode([value])
        content = memoryview(encoded + (b"," if format_ == JSON else b"\x01") + b"   " * 40)
        if limit > len(encoded):
            assert end_of_value(content, 0, limit, format_) == len(encoded)
        else:
            with pytest.raises(TooLong):
                end_of_value(content, 0, limit, format_)
