"""`DefaultBases`: the knowledge bases that exist without being created, such as `memory`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID, uuid5

import structlog
from sqlalchemy.exc import IntegrityError

from ragstore.kit.background import attempted
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.errors import DatabaseUnavailable, NameTaken
from ragstore_gateway.splitting.chunk import WINDOW

IDS: Final = UUID("6f1f4a3e-3c56-4b0e-9d52-8e0f2f7a6c11")
"""The namespace of the ids of default bases: each one is created once, by whichever replica is first."""

RETRY_SECONDS: Final = 2.0

_log = structlog.get_logger(__name__)


def default_base(name: str) -> KnowledgeBase:
    """The base over a collection of the store: documents of its own, and the records that others store there.

    Args:
        name: its name, and the name of the collection.
    """
    return KnowledgeBase(
        name=name,
        description=f"The collection {name} of the store",
        store_parameters={"collection": name, "shared": True},
        chunk_strategy=WINDOW.strategy,
        chunk_size=WINDOW.size,
        chunk_overlap=WINDOW.overlap,
    )


class DefaultBases:
    """Creates the bases that do not exist. It works while the block of `running` runs.

    A base that was marked as deleted is not created again; one whose versions were removed is, at the next start.

    Args:
        bases: the knowledge bases.
        names: the names of the default ones.
        prefix: begins the names of collections that belong to bases. Such a name is none of a default base.
    """

    def __init__(self, bases: Configurations[KnowledgeBase], names: Sequence[str], prefix: str) -> None:
        self._bases = bases
        self._names = [name for name in names if not name.startswith(prefix)]

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Create the bases. If the database is unavailable, the start does not fail; they are created later."""
        async with attempted(self._create_all, every=RETRY_SECONDS):
            yield

    async def _create_all(self) -> bool:
        """Create the bases that do not exist; whether the database could be used."""
        try:
            for name in self._names:
                await self._create(name)
        except DatabaseUnavailable as error:
            _log.warning("default knowledge bases not created", error=error.cause)
            return False
        return True

    async def _create(self, name: str) -> None:
        id = str(uuid5(IDS, name))
        if await self._bases.find_by_name(name) is not None or await self._bases.name_of(id) is not None:
            return
        try:
            await self._bases.create(default_base(name), id=id)
        except (NameTaken, IntegrityError):
            # Another replica was faster.
            return
        _log.info("knowledge base created", base=id)
