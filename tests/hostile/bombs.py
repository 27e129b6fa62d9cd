"""Bodies that cost much more than their size, if they are decoded as they come."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
MIB: Final = 1024 * 1024


@dataclass(frozen=True)
class Bomb:
    """A body.

    Attributes:
        name: what it is.
        method: method of the request.
        path: path of the request, in a collection.
        body: makes it.
        status: status of the response.
    """

    name: str
    method: str
    path: str
    media_type: str
    body: Callable[[], bytes]
    status: int = 400


def json_list(before: bytes, member: bytes, after: bytes, size: int) -> Callable[[], bytes]:
    """JSON of a size with a list that repeats a member."""
    count = (size - len(before) - len(after)) // (len(member) + 1) - 1
    return lambda: before + (member + b",") * count + member + after


def msgpack_list(before: bytes, member: bytes, size: int) -> Callable[[], bytes]:
    """MessagePack of a size that ends with a list that repeats a member."""
    count = (size - len(before) - 5) // len(member)
    return lambda: before + b"\xdd" + struct.pack(">I", count) + member * count


def text(before: bytes, unit: bytes, after: bytes, size: int) -> Callable[[], bytes]:
    """JSON of a size with a text that repeats a unit."""
    return lambda: before + unit * ((size - len(before) - len(after)) // len(unit)) + after


def keys(size: int) -> bytes:
    """A document with as many metadata keys as fit in a size."""
    members = b",".join(b'"%d":1' % number for number in range(size // 12))
    return b'{"documents":[{"text":"","embedding":[1],"metadata":{' + members + b"}}]}"


DOCUMENTS: Final = "/documents"
QUERY: Final = "/query"
_QUERY_FILTER: Final = b"\x82\xafquery_embedding\x91\x01\xa5where\x81\xa1a\x81\xa3$in"
_DOCUMENT: Final = b'{"documents":[{"text":"","embedding":[1],'
_MSGPACK_DOCUMENT: Final = b"\x81\xa9documents\x91\x83\xa4text\xa0\xa9embedding\x91\x01\xa1x"
_LARGE: Final = 64 * MIB
_MEDIUM: Final = 16 * MIB
_BELOW: Final = 1023 * 1024
"""Just below the limit of a body that stores no documents."""


def _documents(name: str, media_type: str, body: Callable[[], bytes]) -> Bomb:
    return Bomb(name, "PUT", DOCUMENTS, media_type, body)


BOMBS: Final = [
    _documents("64 MiB of numbers", JSON, json_list(b'{"documents":[', b"1", b"]}", _LARGE)),
    _documents("8 MiB of empty objects", JSON, json_list(b'{"documents":[', b"{}", b"]}", 8 * MIB)),
    _documents("24 MiB of empty objects", JSON, json_list(b'{"documents":[', b"{}", b"]}", 24 * MIB)),
    _documents("8 MiB of empty maps", MSGPACK, msgpack_list(b"\x81\xa9documents", b"\x80", 8 * MIB)),
    _documents("small documents", JSON, json_list(b'{"documents":[', b'{"text":"","embedding":[1]}', b"]}", _LARGE)),
    Bomb("64 MiB of maps in $in", "POST", QUERY, MSGPACK, msgpack_list(_QUERY_FILTER, b"\x80", _LARGE), 413),
    Bomb(
        "64 MiB of lists in $in",
        *("POST", QUERY, JSON),
        json_list(b'{"query_embedding":[1],"where":{"a":{"$in":[', b"[]", b"]}}}", _LARGE),
        413,
    ),
    Bomb("64 MiB query", "POST", QUERY, JSON, json_list(b'{"query_embedding":[', b"1", b"]}", _LARGE), 413),
    Bomb("1 MiB of maps in $in", "POST", QUERY, MSGPACK, msgpack_list(_QUERY_FILTER, b"\x80", _BELOW)),
    Bomb(
        "1 MiB of lists in $in",
        *("POST", QUERY, JSON),
        json_list(b'{"query_embedding":[1],"where":{"a":{"$in":[', b"[]", b"]}}}", _BELOW),
    ),
    Bomb("1 MiB query", "POST", QUERY, JSON, json_list(b'{"query_embedding":[', b"1", b"]}", _BELOW)),
    Bomb(
        "1 MiB of comparisons",
        *("POST", "/documents/filter", JSON),
        json_list(b'{"where":{"$or":[', b'{"a":1}', b"]}}", _BELOW),
    ),
    Bomb("1 MiB of ids", "POST", "/documents/delete", JSON, json_list(b'{"ids":[', b'"a"', b"]}", _BELOW)),
    Bomb("1 MiB of metadata", "PUT", "/metadata", JSON, json_list(b'{"metadata":{"a":[', b"{}", b"]}}", _BELOW)),
    _documents("an ignored field of a document", JSON, json_list(_DOCUMENT + b'"x":[', b"[]", b"]}]}", _LARGE)),
    _documents("the same, smaller", JSON, json_list(_DOCUMENT + b'"x":[', b"[]", b"]}]}", 7 * MIB)),
    _documents("the same of maps", MSGPACK, msgpack_list(_MSGPACK_DOCUMENT, b"\x80", 7 * MIB)),
    _documents(
        "an endless embedding", JSON, json_list(b'{"documents":[{"text":"","embedding":[', b"1", b"]}]}", _MEDIUM)
    ),
    _documents("a long embedding", JSON, json_list(b'{"documents":[{"text":"","embedding":[', b"1", b"]}]}", 7 * MIB)),
    _documents("a list of metadata", JSON, json_list(_DOCUMENT + b'"metadata":{"a":[', b"1", b"]}}]}", 7 * MIB)),
    _documents("keys of metadata", JSON, lambda: keys(7 * MIB)),
    _documents("an ignored field of the body", JSON, json_list(b'{"x":[', b"[]", b'],"documents":[]}', _MEDIUM)),
    _documents("ignored fields of the body", JSON, text(b"{", b'"x":1,', b'"documents":[]}', _MEDIUM)),
    _documents("a text", JSON, text(b'{"documents":[{"text":"', b"a", b'","embedding":[1]}]}', _MEDIUM)),
    _documents("escapes", JSON, text(b'{"documents":[{"text":"', b"\\n,", b'","embedding":["a"]}]}', 7 * MIB)),
    _documents("whitespace", JSON, text(b'{"documents":[', b" ", b"]}", _MEDIUM)),
    _documents("levels", JSON, text(b'{"documents":[', b"[", b"", _MEDIUM)),
]


def whole_numbers(size: int, other: bytes = b"") -> bytes:
    """Documents whose embeddings are whole numbers of one byte in MessagePack, and of four bytes in memory.

    Args:
        size: size of the body.
        other: the first number of each embedding, in MessagePack.
    """
    head = b"\xdd" + struct.pack(">I", 65_536)
    embedding = head + other + (b"\x01\x02" * 32_768)[bool(other) :]
    return msgpack_documents(b"\x82\xa4text\xa0\xa9embedding" + embedding, size // len(embedding))


def wide(size: int) -> str:
    """A text of ASCII and one emoji, of about a size in UTF-8: in memory each character takes four bytes."""
    return "a passage of plain text, " * (size // 25) + "\N{SMILING FACE WITH OPEN MOUTH}"


def encoded(documents: Sequence[Mapping[str, object]], *, json: bool = False) -> bytes:
    """A body of documents."""
    return (msgspec.json.encode if json else msgspec.msgpack.encode)({"documents": documents})


def wide_texts(size: int, *, json: bool = False) -> bytes:
    """Documents with a text of one emoji each."""
    return encoded([{"text": wide(MIB), "embedding": [1]}] * (size // MIB), json=json)


def wide_metadata(size: int, length: int = MIB) -> bytes:
    """Documents whose metadata has texts of some length with one emoji each, up to 1 MiB together."""
    metadata = {f"key {number}": wide(length) for number in range(MIB // length)}
    return encoded([{"text": "", "embedding": [1], "metadata": metadata}] * (size // MIB), json=True)


def wide_lists(size: int) -> bytes:
    """Documents whose metadata has lists of texts with one emoji each."""
    metadata = {"list": [f"{number}{wide(1000)}" for number in range(1000)]}
    return encoded([{"text": "", "embedding": [1], "metadata": metadata}] * (size // MIB))


def large_document(size: int, **fields: object) -> bytes:
    """A document of a size, whose text, unless it has another one, has one emoji."""
    return encoded([{"text": wide(size), "embedding": [1], **fields}], json=True)


def _legal(name: str, media_type: str, body: Callable[[], bytes]) -> Bomb:
    return Bomb(name, "PUT", DOCUMENTS, media_type, body, 200)


def legal_document(size: int) -> list[Bomb]:
    """Bodies of one document of a size, which is stored, and takes the most memory for its size."""
    text = wide(size)
    return [
        _legal("a document with one emoji", JSON, lambda: large_document(size)),
        _legal(
            "a document with one emoji in MessagePack", MSGPACK, lambda: encoded([{"text": text, "embedding": [1]}])
        ),
        _legal(
            "a document with one emoji in its metadata",
            JSON,
            lambda: large_document(size, text="", metadata={"a": text}),
        ),
    ]


def legal(size: int) -> list[Bomb]:
    """Bodies of a size that are stored, and take the most memory for their size."""
    return [
        _legal("whole numbers of one byte", MSGPACK, lambda: whole_numbers(size)),
        _legal(
            "whole numbers of one byte and a fraction", MSGPACK, lambda: whole_numbers(size, b"\xca\x3f\x00\x00\x00")
        ),
        _legal("texts with one emoji", JSON, lambda: wide_texts(size, json=True)),
        _legal("texts with one emoji in MessagePack", MSGPACK, lambda: wide_texts(size)),
        _legal("one emoji in metadata", JSON, lambda: wide_metadata(size)),
        Bomb(
            "one emoji in each of many metadata values", "PUT", DOCUMENTS, JSON, lambda: wide_metadata(size, 300), 200
        ),
        _legal("one emoji in each member of lists", MSGPACK, lambda: wide_lists(size)),
    ]


def others(size: int) -> list[Bomb]:
    """Further legal bodies, and a wrong document, for measurements."""
    count = size // 98_304
    halves = b"\xcc\xc8\x01" * 32_768
    document = b"\x82\xa4text\xa0\xa9embedding\xdd" + struct.pack(">I", 65_536) + halves
    numbers = b'{"text":"","embedding":[1' + b",1" * 65_535 + b"]}"

    def values(value: object) -> bytes:
        metadata = {str(number): value for number in range(4_900)}
        return encoded([{"text": "", "embedding": [1], "metadata": metadata}] * 100)

    def text(length: int) -> str:
        return "x" * length + "\N{SMILING FACE WITH OPEN MOUTH}"

    return [
        _legal("numbers of one and of two bytes", MSGPACK, lambda: msgpack_documents(document, count)),
        _legal(
            "whole numbers", JSON, lambda: b'{"documents":[' + b",".join([numbers] * (size // len(numbers))) + b"]}"
        ),
        _legal("490,000 values that are numbers", MSGPACK, lambda: values(1)),
        _legal("490,000 values of 10 characters", MSGPACK, lambda: values(text(10))),
        _legal("490,000 values of 60 characters", MSGPACK, lambda: values(text(60))),
        _legal("490,000 values of 100 characters", MSGPACK, lambda: values(text(100))),
        _documents("a wrong document with one emoji", JSON, lambda: large_document(7 * MIB, embedding=["a"])),
    ]


def msgpack_documents(document: bytes, count: int) -> bytes:
    """A body that repeats a document."""
    return b"\x81\xa9documents\xdc" + struct.pack(">H", count) + document * count


def random_bomb(seed: int) -> Bomb:
    """A body of up to 4 MiB, of a route and a format, that repeats a random value in random places."""
    chosen = random.Random(seed)
    unit = chosen.choice([b"[]", b"{}", b'""', b"1", b"null", b'{"a":{}}', b'[[1],"\\\\"]', b'"\\"{"', b'{"text":"a"}'])
    size = chosen.choice([100_000, 900_000, 4 * MIB])
    method, path, before, after = chosen.choice(
        [
            ("PUT", DOCUMENTS, b'{"documents":[', b"]}"),
            ("POST", DOCUMENTS, b'{"documents":[{"text":"a","embedding":[', b"]}]}"),
            ("PUT", DOCUMENTS, b'{"documents":[{"text":"a","embedding":[1],"metadata":{"a":[', b"]}}]}"),
            ("PUT", DOCUMENTS, b'{"documents":[{"text":"a","embedding":[],"metadata":[', b"]},1]}"),
            ("POST", QUERY, b'{"query_embedding":[', b"]}"),
            ("POST", QUERY, b'{"query_embedding":[1],"where":{"$and":[', b"]}}"),
            ("POST", QUERY, b'{"query_embedding":[1],"include":[', b"]}"),
            ("POST", "/documents/filter", b'{"where_document":{"$or":[', b"]}}"),
            ("POST", "/documents/filter", b'{"where":{"a":{"$nin":[', b"]}}}"),
            ("POST", "/documents/delete", b'{"ids":[', b"]}"),
        ]
    )
    return Bomb(f"random {seed}", method, path, JSON, json_list(before, unit, after, size))
