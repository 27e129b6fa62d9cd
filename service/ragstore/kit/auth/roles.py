"""The role that a route requires, declared by `opt=requires("reader")`."""

from __future__ import annotations

from typing import Any, Final

ROLE: Final = "role"
"""Name of the route option that holds the role."""

PUBLIC: Final[dict[str, Any]] = {ROLE: None}
"""For routes that need no key."""

IDENTIFIES: Final = "identifies"
"""Name of the route option of a public route that uses the key which a request has."""

CHANGES_NOTHING: Final = "changes_nothing"
"""Name of the route option of a route that only reads although its method could change something."""

READS: Final[dict[str, Any]] = {CHANGES_NOTHING: True}
"""For searches and other reads with a body, in a service whose changes all have an audit record."""

KEY_OPTIONAL: Final[dict[str, Any]] = {**PUBLIC, IDENTIFIES: True}
"""For routes that need no key, and reject a wrong one with 401. Any key of the file may call them."""


def requires(role: str) -> dict[str, Any]:
    """The option of a route that needs a key.

    Args:
        role: the role that is needed, or any above it.

    Returns:
        For `opt`.
    """
    return {ROLE: role}
