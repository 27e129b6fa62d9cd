"""`DeferredStore`: a store whose driver is imported by its first call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from importlib import import_module

from ragstore_client import Where
from ragstore_gateway.engines.engine_collection import EngineCollection, Passage, Record, Vector
from ragstore_gateway.engines.linked_collection import CollectionInfo, LinkedCollection


class DeferredStore:
    """A store whose module is imported in a thread. See `EngineCollection`.

    Importing a driver in the event loop stops all other requests: Qdrant's driver takes 1.8 s.

    Args:
        module: name of the module.
        open_: opens the store, once the module is imported.
    """

    def __init__(self, module: str, open_: Callable[[], EngineCollection]) -> None:
        self._module = module
        self._open = open_
        self._opened: EngineCollection | None = None

    async def describe(self) -> CollectionInfo | None:
        """Describe a collection that others fill; see `LinkedCollection`."""
        store = await self._store()
        return await store.describe() if isinstance(store, LinkedCollection) else None

    async def create(self) -> None:
        """Create the collection."""
        await (await self._store()).create()

    async def write(self, records: Sequence[Record]) -> None:
        """Store records."""
        await (await self._store()).write(records)

    async def search(
        self, vector: Vector, limit: int, *, min_relevance: float = 0.0, where: Where | None = None
    ) -> list[Passage]:
        """Find the nearest records."""
        return await (await self._store()).search(vector, limit, min_relevance=min_relevance, where=where)

    async def compare(self, vector: Vector, ids: Sequence[str]) -> list[Passage]:
        """Compare records with a vector."""
        return await (await self._store()).compare(vector, ids)

    async def delete(self, where: Where) -> int:
        """Delete the records that a filter selects."""
        return await (await self._store()).delete(where)

    async def delete_ids(self, ids: Sequence[str]) -> None:
        """Delete records by their ids."""
        await (await self._store()).delete_ids(ids)

    async def count(self, where: Where | None = None) -> int:
        """Count the records that a filter selects."""
        return await (await self._store()).count(where)

    async def drop(self) -> None:
        """Remove the collection."""
        await (await self._store()).drop()

    async def _store(self) -> EngineCollection:
        if self._opened is None:
            await asyncio.to_thread(import_module, self._module)
            self._opened = self._open()
        return self._opened
