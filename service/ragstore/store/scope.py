"""`ScopedStore`: a store as a key sees it that may see some collections only."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import translate
from typing import TypeVar

from ragstore.errors import CollectionNotFound
from ragstore.kit import context
from ragstore.kit.errors import Forbidden
from ragstore.model.collections import Collection, Distance, StoreStatus
from ragstore.model.metadata import CollectionMetadata
from ragstore.store.layer import StoreLayer, StoreOperation
from ragstore.store.protocol import Store

T = TypeVar("T")


class ScopedStore(StoreLayer):
    """Collections whose names fit none of the patterns do not exist in it, whether they exist or not.

    Chroma is not asked about them either, so that no answer takes longer for one that exists.

    Args:
        inner: the store with all collections.
        patterns: patterns of file names, such as `repo_*`.
    """

    def __init__(self, inner: Store, patterns: Sequence[str]) -> None:
        super().__init__(inner)
        self._fits = re.compile("|".join(map(translate, patterns))).match

    async def _through(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call on a collection whose name fits.

        Raises:
            CollectionNotFound: it does not.
        """
        if name is not None and not self._fits(name):
            context.record_denied(name)
            raise CollectionNotFound(name)
        return await call()

    async def status(self) -> StoreStatus:
        """Ask Chroma how it is. The bytes of all collections together are nobody's business here."""
        found = await self._inner.status()
        return StoreStatus(found.kind, found.chroma_version, await self.count_collections())

    async def create_collection(self, name: str, metadata: CollectionMetadata, distance: Distance) -> Collection:
        """Create a collection.

        Raises:
            Forbidden: the name does not fit; it may be taken or not.
        """
        if not self._fits(name):
            context.record_denied(name)
            raise Forbidden("The key may not create a collection of this name")
        return await self._inner.create_collection(name, metadata, distance)

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections by name."""
        found = [
            collection for collection in await self._inner.list_collections(None, 0) if self._fits(collection.name)
        ]
        return found[offset:] if limit is None else found[offset : offset + limit]

    async def count_collections(self) -> int:
        """How many collections there are."""
        return len(await self.list_collections(None, 0))
