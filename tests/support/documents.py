"""Documents to send, and reading back what became of them."""

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
    """A document with two-dimensional embedding; keyword arguments become its metadata."""
    return {"id": document_id, "text": text, "embedding": list(embedding), "metadata": metadata}


def documents(count: int, **metadata: Any) -> list[Document]:
    """Documents `doc-0`, `doc-1`, ... with the same metadata and an embedding of their own."""
    return [document(f"doc-{number}", embedding=(1.0, float(number)), **metadata) for number in range(count)]


def lines_of(*streamed: Document) -> bytes:
    """Documents as a stream, a line each."""
    return b"".join(json.dumps(one).encode() + b"\n" for one in streamed)


def documents_path(collection: str) -> str:
    """Where the documents of a collection are."""
    return f"/collections/{collection}/documents"


def document_path(collection: str, document_id: str) -> str:
    """Where one document is, every character that could mean something else percent-encoded."""
    return f"{documents_path(collection)}/{quote(document_id, safe='').replace('.', '%2E')}"


def add(http: httpx.Client, collection: str, *added: Document) -> None:
    """Store documents."""
    answer = http.post(documents_path(collection), json={"documents": added})
    assert answer.status_code == 201, answer.text


def count_of(http: httpx.Client, collection: str) -> int:
    """How many documents a collection holds."""
    return int(http.get(f"/collections/{collection}").json()["count"])


def ids_of(answer: httpx.Response, key: str = "documents") -> list[str]:
    """The ids of listed documents, or of a query's `results`."""
    assert answer.status_code == 200, answer.text
    return [found["id"] for found in answer.json()[key]]
