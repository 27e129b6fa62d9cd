"""Malformed and extreme JSON, and request bodies with it."""

from __future__ import annotations

# The deepest is just below the limit of small bodies, 1 MiB.
DEPTHS = [100, 10_000, 50_000]
SURROGATE = '"\\ud800"'
HUGE = "1" + "0" * 400
WRITES = ["POST", "PUT"]


def nested(depth: int, opening: str = "[", closing: str = "]", core: str = "1") -> str:
    return opening * depth + core + closing * depth


def documents_body(document_: str) -> str:
    """A request body whose second document is this one."""
    return f'{{"documents": [{{"text": "x", "embedding": [1, 0]}}, {document_}]}}'


def with_embedding(embedding: str) -> str:
    return documents_body(f'{{"text": "x", "embedding": {embedding}}}')


def with_metadata(metadata: str) -> str:
    return documents_body(f'{{"text": "x", "embedding": [1, 0], "metadata": {metadata}}}')
