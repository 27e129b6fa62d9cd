"""`Assistants`: the assistants as models with retrieval, `rag/NAME` in OpenAI's API."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Final, TypeVar

import structlog

from ragstore.kit.errors import ServiceError
from ragstore_gateway.chat.rag_models import RagModel
from ragstore_gateway.knowledge.assistant import Assistant
from ragstore_gateway.knowledge.configurations import Configurations
from ragstore_gateway.retrieval.assistant_model import AssistantModel, AssistantServices

T = TypeVar("T")

LOOKUP_SECONDS: Final = 2.0
"""Maximum time for looking an assistant up. After it, its last known version is used."""

MAX_KNOWN: Final = 1000
"""Maximum number of assistants whose last known versions are kept."""

_log = structlog.get_logger(__name__)


class Assistants:
    """The assistants, by name.

    Each request looks the current version up, so that a change is effective from the next request on, on every replica.
    While the database is unavailable, the last known versions are used, so that chats continue.

    Args:
        configurations: the assistants.
        services: what they use.
    """

    def __init__(self, configurations: Configurations[Assistant], services: AssistantServices) -> None:
        self._configurations = configurations
        self._services = services
        self._known: dict[str, AssistantModel] = {}
        self._models: Mapping[str, str] = {}

    async def upstream_models(self) -> Mapping[str, str]:
        """The upstream's model of each assistant, by its name; see `RagModels`."""
        try:
            found = await _bounded(self._configurations.field("model"))
        except (ServiceError, TimeoutError) as error:
            _log.warning("assistants not listed", error=type(error).__name__)
        else:
            self._models = {name: model or self._services.settings.model for name, model in found.items()}
        return self._models

    async def find(self, name: str) -> RagModel | None:
        """Look an assistant up.

        Args:
            name: its name.

        Returns:
            The assistant in its current version; None if there is none, or if the database is unavailable and none of
            this name is known.
        """
        try:
            found = await _bounded(self._configurations.find_by_name(name))
        except (ServiceError, TimeoutError) as error:
            _log.warning("assistant not looked up", error=type(error).__name__)
            return self._known.get(name)
        known = self._known.pop(name, None)
        if found is None:
            return None
        if known is None or not known.is_of(found):
            known = AssistantModel(found, self._services)
        self._keep(name, known)
        return known

    def _keep(self, name: str, model: AssistantModel) -> None:
        """Keep a model as the most recently used one."""
        while len(self._known) >= MAX_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[name] = model


async def _bounded(work: Awaitable[T]) -> T:
    async with asyncio.timeout(LOOKUP_SECONDS):
        return await work
