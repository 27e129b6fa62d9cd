"""`HiddenBasesMiddleware`: a knowledge base that its patterns hide from a key does not exist for it.

The question sets of the base do not exist for the key, either.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from ragstore.kit.auth.name_patterns import NamePatterns
from ragstore.kit.context import record_denied
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.question_sets import QuestionSets
from ragstore_gateway.keys import visible_bases

QUESTIONS: Final = "/ragstore/questions/{id"
PARAMETERS: Final = {"/ragstore/rags/{id": "id", "/v1/vector_stores/{store_id": "store_id", QUESTIONS: "id"}
"""Beginning of the template of a path below a knowledge base or a question set, and the parameter that has its id."""


def is_visible(id: str, name: str, visible: NamePatterns) -> bool:
    """Whether a knowledge base exists for a caller. The log line of the request names a hidden one.

    Args:
        visible: names of the knowledge bases that exist for the caller.
    """
    if visible.matches(name):
        return True
    record_denied(f"rags/{id}")
    return False


class HiddenBasesMiddleware:
    """Serves a request for a hidden knowledge base, or for a set of it, as one for an id that does not exist.

    The id in the path is replaced by a new one, and in the response by the caller's. So each route, whatever it checks
    and in which order, gives a hidden and an absent base the same response, to the byte.

    It runs after authentication, which sets the key of the request.

    Args:
        bases: the knowledge bases.
        sets: their question sets.
    """

    def __init__(self, bases: Configurations[KnowledgeBase], sets: QuestionSets) -> None:
        self._bases = bases
        self._sets = sets

    def __call__(self, app: ASGIApp) -> ASGIApp:
        """Wrap an application."""

        async def hiding(scope: Scope, receive: Receive, send: Send) -> None:
            hidden = await self._hidden(scope) if scope["type"] == ScopeType.HTTP else None
            if hidden is None:
                await app(scope, receive, send)
                return
            parameter, id = hidden
            is_set = scope["path_template"].startswith(QUESTIONS)
            record_denied(f"questions/{id}" if is_set else f"rags/{id}")
            absent = str(uuid4())
            # Litestar keeps the dictionary for further requests of the path.
            scope["path_params"] = {**scope["path_params"], parameter: absent}

            async def renaming(message: Message) -> None:
                if message["type"] == "http.response.body":
                    message["body"] = message["body"].replace(absent.encode(), id.encode())
                await send(message)

            await app(scope, receive, renaming)

        return hiding

    async def _hidden(self, scope: HTTPScope) -> tuple[str, str] | None:
        """The path parameter of a hidden base or set, and its id; None if the path is not one of a hidden base.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        visible = visible_bases(scope)
        if visible.matches_all:
            return None
        template = scope["path_template"]
        parameter = next((name for start, name in PARAMETERS.items() if template.startswith(start)), None)
        if parameter is None:
            return None
        id = str(scope["path_params"][parameter])
        is_set = template.startswith(QUESTIONS)
        name = await (self._sets.base_name_of(id) if is_set else self._bases.name_of(id))
        return None if name is None or visible.matches(name) else (parameter, id)
