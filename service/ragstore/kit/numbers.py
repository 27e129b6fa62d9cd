"""Integers in JSON."""

from __future__ import annotations

from typing import Final

from ragstore.kit.errors import InvalidRequest

MAX_WHOLE: Final = 2**53 - 1
"""The largest integer that every JSON parser represents exactly."""


def whole_number(value: int | float, path: str) -> int:
    """An integer, which JSON may write with a zero fraction.

    Args:
        value: the number.
        path: its JSON path, for errors.

    Raises:
        InvalidRequest: it has a fraction.
    """
    if isinstance(value, float) and not value.is_integer():
        raise InvalidRequest.at(path, "Expected a whole number")
    return int(value)
