"""Options of routes. The OpenAPI document lists a route's errors from them."""

from __future__ import annotations

from typing import Any, Final

from ragstore.errors import ChromaFailed, ChromaTimeout, ChromaUnavailable
from ragstore.kit.errors import ServiceError

ERRORS: Final = "errors"
"""Name of the option that lists the errors of a route's operation.

Errors of every route, of its role and of its body are not listed: they follow from the route.
"""


def store_errors(*errors: type[ServiceError]) -> dict[str, Any]:
    """The option of a route that calls the store.

    Args:
        errors: errors that the operation raises, besides those of Chroma.
    """
    return {ERRORS: (ChromaFailed, ChromaUnavailable, ChromaTimeout, *errors)}
