"""Decodes documents with their vectors from MessagePack, in which a vector is the bytes of its float32 values.

A vector of 768 numbers is 3 KiB instead of 15 KiB of JSON, and its numbers are not parsed.
"""

from __future__ import annotations

import sys
from array import array

import msgspec

from ragstore_client._models import Document, DocumentPage, FloatOrNaN, Match, QueryResults, StoredMetadata

MSGPACK = "application/msgpack"
ACCEPT = f"{MSGPACK}, application/json;q=0.5"
"""A service or a proxy that has no MessagePack responds with JSON."""


class _Document(msgspec.Struct):
    id: str
    text: str = ""
    metadata: StoredMetadata = {}
    embedding: bytes | None = None


class _DocumentPage(msgspec.Struct):
    documents: list[_Document]
    count: int
    total: int | None = None
    next: str | None = None


class _Match(_Document):
    distance: FloatOrNaN | None = None
    score: FloatOrNaN | None = None
    collection: str | None = None


class _QueryResults(msgspec.Struct):
    results: list[_Match]
    count: int
    collection_metadata: StoredMetadata | None = None


_PAGES, _RESULTS = msgspec.msgpack.Decoder(_DocumentPage), msgspec.msgpack.Decoder(_QueryResults)


def decode_documents(body: bytes) -> DocumentPage:
    """Decode a page of documents, from MessagePack or from JSON."""
    if _is_json(body):
        return msgspec.json.decode(body, type=DocumentPage)
    page = _PAGES.decode(body)
    documents = [Document(each.id, each.text, each.metadata, _numbers(each.embedding)) for each in page.documents]
    return DocumentPage(documents, page.count, page.total, page.next)


def decode_results(body: bytes) -> QueryResults:
    """Decode the results of a query of one collection, from MessagePack or from JSON."""
    if _is_json(body):
        return msgspec.json.decode(body, type=QueryResults)
    found = _RESULTS.decode(body)
    matches = [
        Match(
            each.id,
            each.text,
            each.metadata,
            float("nan") if each.distance is None else each.distance,
            float("nan") if each.score is None else each.score,
            each.collection,
            _numbers(each.embedding),
        )
        for each in found.results
    ]
    return QueryResults(matches, found.count, found.collection_metadata)


def _is_json(body: bytes) -> bool:
    """Whether a body is JSON, or nothing at all: a map of MessagePack begins with a byte above 0x7f."""
    return body[:1] < b"\x80"


def _numbers(raw: bytes | None) -> list[float] | None:
    if raw is None:
        return None
    try:
        values = array("f", raw)
    except ValueError:
        raise msgspec.ValidationError("Expected `bytes` of float32 values") from None
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()
