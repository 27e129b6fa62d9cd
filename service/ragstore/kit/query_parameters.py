"""Checks of query strings before a route's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote_to_bytes

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.params import QueryParameter
from litestar.typing import FieldDefinition

from ragstore.kit.errors import FieldError, InvalidRequest
from ragstore.kit.openapi import is_public


class QueryGuard:
    """A guard of Litestar, which rejects query parameters that a route would ignore.

    A route ignores unknown parameters, all but the last value of a repeated one, and the text `null` in place of a
    number that may be absent. Public routes accept unknown parameters.

    Args:
        open_prefixes: beginnings of further paths that accept unknown parameters: of probes, and of another API, whose
            callers may send parameters of later versions.
    """

    def __init__(self, *open_prefixes: str) -> None:
        self._open_prefixes = open_prefixes

    async def __call__(self, connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
        """Check a request. Litestar calls a guard that is no coroutine in a thread.

        Args:
            connection: the request.
            handler: its route.

        Raises:
            InvalidRequest: the query string has such a parameter, or is not UTF-8.
        """
        query: bytes = connection.scope["query_string"]
        if not query or not isinstance(handler, HTTPRouteHandler):
            return
        try:
            unquote_to_bytes(query).decode()
        except UnicodeDecodeError:
            raise InvalidRequest("A query string must be UTF-8, percent-encoded") from None
        known = _parameters(handler)
        accepts_unknown = is_public(handler) or connection.scope["path"].startswith(self._open_prefixes)
        errors = []
        for name, values in connection.query_params.dict().items():
            if name in known:
                if len(values) > 1 and not _is_list(known[name]):
                    errors.append(FieldError(f"$.{name}", "The query parameter must not be repeated"))
                elif values[0].lower() == "null" and _may_be_null(known[name]):
                    errors.append(FieldError(f"$.{name}", "The query parameter must not be null"))
            elif not accepts_unknown:
                listed = ", ".join(known) or "none"
                errors.append(FieldError(f"$.{name}", f"Unknown query parameter; known are {listed}"))
        if errors:
            raise InvalidRequest("; ".join(f"{each.message}: {each.path}" for each in errors), errors)


def _parameters(handler: HTTPRouteHandler) -> Mapping[str, FieldDefinition]:
    """The query parameters of a route."""
    return {
        field.kwarg_definition.name or name: field
        for name, field in handler.parsed_fn_signature.parameters.items()
        if isinstance(field.kwarg_definition, QueryParameter)
    }


def _is_list(field: FieldDefinition) -> bool:
    return any(each.is_non_string_sequence for each in (field, *field.inner_types))


def _may_be_null(field: FieldDefinition) -> bool:
    """Whether Litestar converts the text `null` to None, as it does unless the value may be a text."""
    return field.is_optional and not any(each.annotation is str for each in field.inner_types)
