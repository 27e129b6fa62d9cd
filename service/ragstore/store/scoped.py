"""`ScopedStore`: a store as a key sees it that may see some collections only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate

from ragstore.errors import CollectionNotFound, Forbidden, RagstoreError
from ragstore.metadata import CollectionMetadata, Metadata, Scalar
from ragstore.security import trail
from ragstore.store.base import (
    EVERYTHING,
    Collection,
    Distance,
    Documents,
    Found,
    Query,
    Selection,
    Store,
    StoreStatus,
    Write,
)
from ragstore.store.wrapping import WrappingStore


class ScopedStore(WrappingStore):
    """Collections whose names fit none of the patterns do not exist in it, whether they exist or not.

    Chroma is not asked about them either, so that no answer takes longer for one that exists.

    Args:
        inner: the store with all collections.
        patterns: patterns of file names, such as `repo_*`.
    """

    def __init__(self, inner: Store, patterns: Sequence[str]) -> None:
        super().__init__(inner)
        self._fits = re.compile("|".join(map(translate, patterns))).match

    def _visible(self, name: str) -> str:
        """A name that fits.

        Raises:
            CollectionNotFound: it does not.
        """
        if not self._fits(name):
            trail.refused(name)
            raise CollectionNotFound(name)
        return name

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
            trail.refused(name)
            raise Forbidden("The key may not create a collection of this name")
        return await self._inner.create_collection(name, metadata, distance)

    async def get_collection(self, name: str) -> Collection:
        """Look a collection up."""
        return await self._inner.get_collection(self._visible(name))

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections by name."""
        found = [
            collection for collection in await self._inner.list_collections(None, 0) if self._fits(collection.name)
        ]
        return found[offset:] if limit is None else found[offset : offset + limit]

    async def count_collections(self) -> int:
        """How many collections there are."""
        return len(await self.list_collections(None, 0))

    async def update_metadata(self, name: str, metadata: dict[str, Scalar | None], *, merge: bool) -> Collection:
        """Replace a collection's metadata or merge into it."""
        return await self._inner.update_metadata(self._visible(name), metadata, merge=merge)

    async def delete_collection(self, name: str) -> None:
        """Delete a collection and its documents."""
        await self._inner.delete_collection(self._visible(name))

    async def write(self, name: str, writes: Sequence[Write]) -> list[RagstoreError | None]:
        """Write several batches, each with an outcome of its own."""
        return await self._inner.write(self._visible(name), writes)

    async def get(
        self,
        name: str,
        selection: Selection,
        *,
        limit: int | None = None,
        offset: int = 0,
        with_embeddings: bool = False,
    ) -> Documents:
        """Read documents in insertion order."""
        return await self._inner.get(
            self._visible(name), selection, limit=limit, offset=offset, with_embeddings=with_embeddings
        )

    async def get_metadatas(self, name: str, selection: Selection, *, limit: int, offset: int) -> list[Metadata]:
        """Read documents' metadata alone, in insertion order."""
        return await self._inner.get_metadatas(self._visible(name), selection, limit=limit, offset=offset)

    async def count(self, name: str, selection: Selection = EVERYTHING) -> int:
        """How many documents are meant, exactly."""
        return await self._inner.count(self._visible(name), selection)

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents."""
        return await self._inner.delete(self._visible(name), selection)

    async def query(self, name: str, queries: Sequence[Query]) -> Found:
        """Find the nearest documents."""
        return await self._inner.query(self._visible(name), queries)
