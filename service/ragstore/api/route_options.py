"""Options of routes. The OpenAPI document lists a route's errors from them."""

from __future__ import annotations

from typing import Any

from ragstore.errors import ChromaFailed, ChromaTimeout, ChromaUnavailable
from ragstore.kit.errors import ServiceError
from ragstore.kit.openapi import ERRORS


def store_errors(*errors: type[ServiceError]) -> dict[str, Any]:
    """The option of a route that calls the store.

    Args:
        errors: errors that the operation raises, beside Chroma's.
    """
    return {ERRORS: (ChromaFailed, ChromaUnavailable, ChromaTimeout, *errors)}
