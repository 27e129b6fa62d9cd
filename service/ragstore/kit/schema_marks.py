"""Marks on struct fields whose JSON Schema msgspec cannot express."""

from __future__ import annotations

from typing import Final

from msgspec import Meta

PROBLEM_CODE: Final = "ProblemCode"
"""The component that lists the codes of a service's problem documents."""

COMPONENT: Final = "x-component"


OPTIONAL: Final = "x-optional"


EXACTLY: Final = "x-exactly"
"""Marks on fields that `ragstore.api.openapi.components` replaces: msgspec cannot say these schemas, or says more."""


def schema(component: str, *, optional: bool = False) -> Meta:
    """A field whose schema stands among the components.

    Args:
        component: the component's name.
        optional: whether the field may be null.

    Returns:
        Metadata for the field's annotation, which `ragstore.api.openapi.components` reads.
    """
    return Meta(extra_json_schema={COMPONENT: component, OPTIONAL: optional})


def whole(least: int, most: int, description: str) -> Meta:
    """A whole number. JSON knows one kind of number, so 5.0 is one; `ragstore.model.numbers.whole_number` reads it.

    Args:
        least: the least that is allowed.
        most: the most that is allowed.
        description: what it means.

    Returns:
        Metadata for the field's annotation.
    """
    allowed = {"type": "integer", "minimum": least, "maximum": most, "description": description}
    return Meta(ge=least, le=most, extra_json_schema={EXACTLY: allowed})
