"""`McpCaller`: who calls a tool or reads a resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from litestar.types import HTTPScope

from ragstore.kit.auth.name_patterns import NamePatterns
from ragstore_gateway.api.request_variables import RequestVariables
from ragstore_gateway.chat.caller import origin_of
from ragstore_gateway.configurations.where_template import variables_of
from ragstore_gateway.keys import may_write, visible_bases
from ragstore_gateway.settings import Settings


@dataclass(frozen=True, slots=True)
class McpCaller:
    """The caller of one request.

    Attributes:
        scope: the request.
        visible: names of the knowledge bases that exist for the caller.
        variables: the variables of filters and of metadata.
        origin: scheme and host of the gateway, as the caller reaches it; empty if unknown.
        may_write: whether the caller may write documents.
    """

    scope: HTTPScope
    visible: NamePatterns
    variables: RequestVariables
    origin: str
    may_write: bool

    @classmethod
    def of(cls, scope: HTTPScope, settings: Settings) -> Self:
        """The caller of a request.

        Args:
            scope: the request.

        Raises:
            InvalidRequest: the id of its session or of its conversation is not valid.
        """
        return cls(
            scope,
            visible_bases(scope),
            variables_of(scope, settings.session_from),
            origin_of(scope, settings),
            may_write(scope),
        )
