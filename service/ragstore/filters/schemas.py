"""JSON Schemas of the filter language: components that both services' OpenAPI documents have."""

from __future__ import annotations

from typing import Final

from ragstore.filters.values import RESERVED_PREFIXES
from ragstore.filters.where import CONTAINMENT, EQUALITY, MEMBERSHIP, ORDER
from ragstore.kit.openapi import JsonSchema, ref

KEY: Final = "(?!" + "|".join(prefix.replace("$", "\\$") for prefix in RESERVED_PREFIXES) + r")[\s\S]+"
"""A pattern of keys that metadata may have, without its anchors."""


def list_of(items: JsonSchema) -> JsonSchema:
    """The schema of a list with at least one item."""
    return {"type": "array", "items": items, "minItems": 1}


LISTS: Final = [list_of({"type": "string"}), list_of({"type": "boolean"}), list_of(ref("Number"))]
"""A metadata value that is a list: its items have one type."""

_OPERANDS: Final[dict[str, JsonSchema]] = {
    **{operator: ref("Scalar") for operator in (*EQUALITY, *CONTAINMENT)},
    **{operator: ref("Number") for operator in ORDER},
    **{operator: {"anyOf": LISTS} for operator in MEMBERSHIP},
}

FILTER_SCHEMAS: Final[dict[str, JsonSchema]] = {
    "Number": {"description": "A 64-bit integer or a finite float.", "type": "number"},
    "Scalar": {
        "description": "A metadata value that is not a list.",
        "anyOf": [{"type": "string"}, {"type": "boolean"}, ref("Number")],
    },
    "Where": {
        "description": (
            "A filter over metadata. Several fields, and several operators on one field, must all hold. `$and` and "
            "`$or` take lists of filters. `{}` selects everything. Numbers compare as numbers, so 1 equals 1.0. A "
            "boolean is not a number, and a list equals nothing. `$ne`, `$nin` and `$not_contains` also select "
            "documents without the field. `$contains` searches lists."
        ),
        "type": "object",
        "propertyNames": {"minLength": 1, "pattern": rf"^(?:\$and|\$or|{KEY})$"},
        "properties": {"$and": list_of(ref("Where")), "$or": list_of(ref("Where"))},
        "additionalProperties": {"anyOf": [ref("Scalar"), ref("WhereOperators")]},
        "examples": [
            {"layer": "chunk", "page_number": {"$gte": 2, "$lt": 9}},
            {"$or": [{"section_id": {"$in": ["intro", "keys"]}}, {"tags": {"$contains": "boiler"}}]},
        ],
    },
    "WhereOperators": {
        "description": "Operators on one metadata field. All must hold.",
        "type": "object",
        "minProperties": 1,
        "properties": _OPERANDS,
        "additionalProperties": False,
    },
}
"""The components, by name. `Where` refers to the others."""
