"""The patterns of the strings that both services decode."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator

import msgspec

import ragstore.app  # noqa: F401  # declares the service's structs
import ragstore_gateway.app  # noqa: F401  # declares the gateway's

ANY_STRING_WITHOUT_NUL = r"^[^\x00]*$"
RESPONSES = {"^(pending|processing|completed|failed: .*)$"}


def patterns_of(annotation: object) -> Iterator[str]:
    """The patterns of an annotation and of its parts."""
    for meta in getattr(annotation, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.pattern is not None:
            yield meta.pattern
    for part in typing.get_args(annotation):
        yield from patterns_of(part)


def structs(base: type[msgspec.Struct] = msgspec.Struct) -> Iterator[type[msgspec.Struct]]:
    """All structs of both services."""
    for struct in base.__subclasses__():
        if struct.__module__.startswith("ragstore"):
            yield struct
        yield from structs(struct)


def declared() -> set[str]:
    """The patterns of all fields of all structs."""
    return {
        pattern
        for struct in structs()
        for annotation in typing.get_type_hints(struct, include_extras=True).values()
        for pattern in patterns_of(annotation)
    }


def test_a_pattern_does_not_match_before_a_newline_at_the_end_of_a_string() -> None:
    # Python's `$` does; ECMAScript's, and so OpenAPI's, does not. Write `$(?!\n)`.
    patterns = declared() - RESPONSES - {ANY_STRING_WITHOUT_NUL}
    assert len(patterns) > 15
    assert [pattern for pattern in patterns if re.search(r"(?<!\\)\$$", pattern)] == []
