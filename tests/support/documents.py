"""Documents to send, and functions that store and read documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias
from urllib.parse import quote

import httpx

Document: TypeAlias = dict[str, Any]

NDJSON_HEADERS = {"Content-Type": "application/x-ndjson"}


def document(
    document_id: str = "a", *, text: str = "some text", embedding: Sequence[float] = (1.0, 0.0), **metadata: Any
) -> Document:
    """A document with a two-dimensional embedding. Keyword arguments are its metadata."""
    return {"id": document_id, "text": text, "embedding": list(embedding), "metadata": metadata}


def documents(count: int, **metadata: Any) -> list[Document]:
    """Documents `doc-0`, `doc-1`, ... with the same metadata and distinct embeddings."""
    return [document(f"doc-{number}", embedding=(1.0, float(number)), **metadata) for number in range(count)]


def lines_of(*streamed: Document) -> bytes:
    """Documents as the lines of a stream."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in streamed)


def documents_path(collection: str) -> str:
    """The path of a collection's documents."""
    return f"/collections/{collection}/documents"


def document_path(collection: str, document_id: str) -> str:
    """The path of a document, with all special characters percent-encoded."""
    return f"{documents_path(collection)}/{quote(document_id, safe='').replace('.', '%2E')}"


def add(http: httpx.Client, collection: str, *added: Document) -> None:
    """Store documents."""
    response = http.post(documents_path(collection), json={"documents": added})
    assert response.status_code == 201, response.text


def count_of(http: httpx.Client, collection: str) -> int:
    """The number of documents in a collection."""
    return int(http.get(f"/collections/{collection}").json()["count"])


def ids_of(response: httpx.Response, key: str = "documents") -> list[str]:
    """The ids of listed documents, or of a query's `results`."""
    assert response.status_code == 200, response.text
    return [found["id"] for found in response.json()[key]]
