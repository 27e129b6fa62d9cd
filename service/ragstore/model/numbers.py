"""Whole numbers in JSON."""

from __future__ import annotations

from typing import Final

from ragstore.kit.errors import InvalidRequest

MAX_WHOLE: Final = 2**53 - 1
"""The largest whole number that every JSON reader keeps exact."""


def whole_number(value: int | float, path: str) -> int:
    """A whole number that JSON may have written with a fraction of zero.

    Args:
        value: the number.
        path: its JSON path, for errors.

    Returns:
        The number.

    Raises:
        InvalidRequest: it has a fraction.
    """
    if isinstance(value, float) and not value.is_integer():
        raise InvalidRequest.at(path, "Expected a whole number")
    return int(value)
