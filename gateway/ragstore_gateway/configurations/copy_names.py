"""Names of duplicates."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

COPY: Final = "-copy"
"""Suffix of the name of a duplicate; a second one has `-copy-2`."""

MAX_NAME: Final = 128


def free_name(name: str, taken: Collection[str]) -> str:
    """Another name, which is not taken: the name with `-copy`, `-copy-2`, and so on.

    A long name that ends with the suffix already would be cut to itself.

    Args:
        taken: the names of all others.
    """
    for number in range(1, len(taken) + 3):
        suffix = COPY if number == 1 else f"{COPY}-{number}"
        candidate = name[: MAX_NAME - len(suffix)].rstrip() + suffix
        if candidate != name and candidate not in taken:
            return candidate
    raise AssertionError("there are more candidates than names")
