"""Streams of lines in the OpenAPI document.

OpenAPI 3.1 cannot describe them, so this follows OpenAPI 3.2 for sequential media types: the schema describes the
whole stream, as an array of its lines.
"""

from __future__ import annotations

from typing import Final

from ragstore.api.openapi.examples import COLLECTION, LINES
from ragstore.kit.decoding import NDJSON
from ragstore.kit.openapi import JsonSchema, ref

_RESPONSE: Final = [
    {"status": "stored", "first_line": 1, "last_line": 2, "count": 2, "id_prefix": "5e1f3c0b9d6a4f7f8a2b-"},
    {"status": "done", "collection": COLLECTION, "last_line": 2, "count": 2, "batches": 1},
]


def request_lines(operation_id: str) -> JsonSchema:
    """The request body of a stream: one document per line. An absent body is an empty stream.

    Args:
        operation_id: the operation, to find its example.
    """
    schema = {"type": "array", "items": ref("NewDocument"), "description": "One document per line, not a JSON array."}
    return {"required": False, "content": {NDJSON: {"schema": schema, "example": LINES[operation_id]}}}


def response_lines() -> JsonSchema:
    """The content of the response to a stream: one line per stored batch, and a last line with the outcome."""
    lines = {"oneOf": [ref("StreamStored"), ref("StreamDone"), ref("StreamFailed")]}
    schema = {"type": "array", "items": lines, "description": "One line per batch, and a last line with the outcome."}
    return {NDJSON: {"schema": schema, "example": _RESPONSE}}
