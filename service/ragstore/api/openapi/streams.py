"""What the OpenAPI document says of streams of lines.

OpenAPI 3.1 has no words for them, so this is what 3.2 says of sequential media types: the schema is that of the whole,
as an array of the lines.
"""

from __future__ import annotations

from typing import Final

from ragstore.api.openapi.components import JsonSchema, ref
from ragstore.api.openapi.examples import COLLECTION, LINES
from ragstore.kit.decoding import NDJSON

STREAM: Final = "streamDocuments"
"""The operation that takes a stream and answers with one."""

_ANSWER: Final = [
    {"status": "stored", "first_line": 1, "last_line": 2, "count": 2, "id_prefix": "5e1f3c0b9d6a4f7f8a2b-"},
    {"status": "done", "collection": COLLECTION, "last_line": 2, "count": 2, "batches": 1},
]


def document_lines() -> JsonSchema:
    """The body: documents, one a line. Where there is none, there are no documents, which is fine."""
    schema = {"type": "array", "items": ref("NewDocument"), "description": "A document a line, not an array of them."}
    return {"required": False, "content": {NDJSON: {"schema": schema, "example": LINES[STREAM]}}}


def answer_lines() -> JsonSchema:
    """The content of the answer: acknowledgements, one a line, and how it ended."""
    lines = {"oneOf": [ref("StreamStored"), ref("StreamDone"), ref("StreamFailed")]}
    schema = {"type": "array", "items": lines, "description": "A line for each batch, and one for the end."}
    return {NDJSON: {"schema": schema, "example": _ANSWER}}
