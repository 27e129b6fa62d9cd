"""Schemas of the OpenAPI document: derived from the structs, or written out where a type cannot express them."""

from __future__ import annotations

from typing import Final

import numpy as np
from litestar import Litestar

from ragstore.errors import CODES
from ragstore.filters.schemas import FILTER_SCHEMAS, KEY, LISTS, list_of
from ragstore.kit import problems
from ragstore.kit.errors import FieldError
from ragstore.kit.openapi import JsonSchema, component_schemas, problem_code, ref
from ragstore.kit.schema_marks import PROBLEM_CODE
from ragstore.model.filters.where_document import MAX_TEXT
from ragstore.model.filters.where_document import OPERATORS as TEXT_OPERATORS
from ragstore.operations.stream import events

FLOAT32_OVERFLOW: Final = float(2**128 - 2**103)
"""The smallest number that float32 rounds to infinity."""

_BASE64_FLOAT32: Final = (
    "^(?:[A-Za-z0-9+/]{16})*(?:[A-Za-z0-9+/]{16}|[A-Za-z0-9+/]{5}[AQgw]==|[A-Za-z0-9+/]{10}[AEIMQUYcgkosw048]=)$"
)
"""Base64 of one or more four-byte floats."""


WRITTEN_OUT: Final[dict[str, JsonSchema]] = {
    PROBLEM_CODE: problem_code(CODES),
    **FILTER_SCHEMAS,
    "DocumentMetadata": {
        "description": (
            "A document's metadata. Values are strings, numbers, booleans, or non-empty lists of one of these types. "
            "Null means absent. Keys are not empty and do not begin with `chroma:`, `#` or `$`."
        ),
        "type": "object",
        "propertyNames": {"minLength": 1, "pattern": f"^{KEY}$"},
        "additionalProperties": {"anyOf": [ref("Scalar"), *LISTS, {"type": "null"}]},
        "examples": [{"layer": "chunk", "page_number": 3, "tags": ["heating", "boiler"]}],
    },
    "CollectionMetadata": {
        "description": (
            "A collection's metadata. Values are strings, numbers or booleans. Null means absent. Keys are not empty "
            "and do not begin with `chroma:`, `#` or `$`. `hnsw:space` is the distance function."
        ),
        "type": "object",
        "propertyNames": {"minLength": 1, "pattern": f"^{KEY}$"},
        "properties": {"hnsw:space": {"enum": ["cosine", "l2", "ip", None]}},
        "additionalProperties": {"anyOf": [ref("Scalar"), {"type": "null"}]},
        "examples": [{"organization_id": "org-1", "language": "en"}],
    },
    "Embedding": {
        "description": (
            "An embedding: numbers that are finite as float32, or base64 of their little-endian float32 bytes. "
            "MessagePack may also contain the bytes themselves."
        ),
        "anyOf": [
            list_of({"type": "number", "exclusiveMinimum": -FLOAT32_OVERFLOW, "exclusiveMaximum": FLOAT32_OVERFLOW}),
            {"type": "string", "contentEncoding": "base64", "pattern": _BASE64_FLOAT32},
        ],
        "examples": [[0.1, 0.2, 0.3], "zczMPc3MTD6amZk+"],
    },
    "StoredEmbedding": {
        "description": "The stored embedding: numbers in JSON, the bytes of little-endian float32 in MessagePack.",
        "type": "array",
        "items": {"type": "number"},
    },
    "WhereDocument": {
        "description": (
            "A filter over text. Operators in one object must all hold. `$and` and `$or` take lists of filters. `{}` "
            "selects everything. `$contains` searches for the exact text, `$regex` for a regular expression (syntax "
            "of Rust's `regex` crate)."
        ),
        "type": "object",
        "properties": {
            **{operator: {"type": "string", "minLength": 1, "maxLength": MAX_TEXT} for operator in TEXT_OPERATORS},
            "$and": list_of(ref("WhereDocument")),
            "$or": list_of(ref("WhereDocument")),
        },
        "additionalProperties": False,
        "examples": [{"$contains": "boiler"}],
    },
}

_EXACTLY_ONE_TARGET: Final[JsonSchema] = {
    "oneOf": [
        {"required": ["collection"], "properties": {"collection": {"type": "string"}}},
        {"required": ["collections"], "properties": {"collections": {"type": "array"}}},
    ]
}
_IDS_OR_WHERE: Final[JsonSchema] = {
    "anyOf": [
        {"required": ["ids"], "properties": {"ids": {"type": "array"}}},
        {"required": ["where"], "properties": {"where": {"type": "object", "minProperties": 1}}},
    ]
}

_FURTHER: Final = (problems.Problem, FieldError, events.StreamStored, events.StreamDone, events.StreamFailed)
"""Structs of the document that no route declares."""


def schemas_of(app: Litestar) -> JsonSchema:
    """All schemas of the document, by name."""
    schemas = component_schemas(app, _FURTHER, WRITTEN_OUT, _array_schema)
    schemas["MultiQueryRequest"] |= _EXACTLY_ONE_TARGET
    schemas["DeleteRequest"] |= _IDS_OR_WHERE
    return schemas


def _array_schema(kind: type) -> JsonSchema:
    """No schema for numpy's arrays: the fields of embeddings are marked with theirs."""
    if np.ndarray in (kind, getattr(kind, "__origin__", None)):
        return {}
    raise NotImplementedError
