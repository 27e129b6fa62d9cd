"""`KnowledgeServices`: the parts behind knowledge bases and assistants, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from litestar.types import ControllerRouterHandler

from ragstore_gateway.database.database import Database
from ragstore_gateway.embeddings.embeddings import Embeddings
from ragstore_gateway.knowledge.assistant import Assistant
from ragstore_gateway.knowledge.configurations import Configurations
from ragstore_gateway.knowledge.knowledge_base import KnowledgeBase
from ragstore_gateway.settings import Settings
from ragstore_gateway.store import Store


class KnowledgeServices:
    """Knowledge bases and assistants: what is stored, what runs in the background, and the routes.

    Args:
        settings: the settings.
        store: the gateway's store.
        embeddings: embeds questions and documents.

    Attributes:
        database: the gateway's state.
        knowledge_bases: the knowledge bases.
        assistants: the assistants.
    """

    def __init__(self, settings: Settings, store: Store, embeddings: Embeddings) -> None:
        self.database = Database.from_settings(settings)
        self.knowledge_bases = Configurations(self.database, "rags", KnowledgeBase)
        self.assistants = Configurations(self.database, "assistants", Assistant)

    @property
    def routes(self) -> Sequence[ControllerRouterHandler]:
        """The routes."""
        return []

    @property
    def dependencies(self) -> Mapping[str, Any]:
        """What the routes may request by the name of a parameter."""
        return {
            "database": self.database,
            "knowledge_bases": self.knowledge_bases,
            "assistants": self.assistants,
        }

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Start everything, and stop it at the end.

        Raises:
            DatabaseNotUsable: the gateway cannot start with this database.
        """
        async with self.database.running():
            yield
