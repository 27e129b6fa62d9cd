"""The role that a route requires, declared by `opt=requires("reader")`."""

from __future__ import annotations

from typing import Any, Final

ROLE: Final = "role"
"""Name of the route option that holds the role."""

PUBLIC: Final[dict[str, Any]] = {ROLE: None}
"""For routes that need no key."""


def requires(role: str) -> dict[str, Any]:
    """The option of a route that needs a key.

    Args:
        role: the role that is needed, or any above it.

    Returns:
        For `opt`.
    """
    return {ROLE: role}
