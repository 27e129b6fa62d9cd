"""Marks on struct fields whose JSON Schema msgspec cannot express."""

from __future__ import annotations

from typing import Final

from msgspec import Meta

PROBLEM_CODE: Final = "ProblemCode"
"""The component that lists the codes of a service's problem documents."""

COMPONENT: Final = "x-component"
OPTIONAL: Final = "x-optional"
EXACTLY: Final = "x-exactly"
"""Keys of the marks. The service replaces marked schemas when it writes its OpenAPI document."""


def schema(component: str, *, optional: bool = False) -> Meta:
    """A field whose schema is a component of the OpenAPI document.

    Args:
        component: the component's name.
        optional: whether the field may be null.

    Returns:
        Metadata for the field's annotation.
    """
    return Meta(extra_json_schema={COMPONENT: component, OPTIONAL: optional})


def whole(minimum: int, maximum: int, description: str) -> Meta:
    """An integer. JSON has one type of numbers, so 5.0 is an integer, too.

    Args:
        minimum: smallest valid value.
        maximum: largest valid value.
        description: meaning of the field.

    Returns:
        Metadata for the field's annotation.
    """
    allowed = {"type": "integer", "minimum": minimum, "maximum": maximum, "description": description}
    return Meta(ge=minimum, le=maximum, extra_json_schema={EXACTLY: allowed})
