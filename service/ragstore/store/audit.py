"""`AuditStore`: a store that records each write in the audit record of the request."""

from __future__ import annotations

from collections.abc import Sequence

from ragstore.filters.values import Scalar
from ragstore.kit import context
from ragstore.kit.errors import ServiceError
from ragstore.model.collections import DEFAULT_HNSW, Collection, Distance, HnswParameters
from ragstore.model.documents import Selection, Write
from ragstore.model.metadata import CollectionMetadata
from ragstore.model.metadata_updates import MetadataUpdates
from ragstore.model.rebuilds import Rebuild
from ragstore.store.layer import StoreLayer


class AuditStore(StoreLayer):
    """Records writes and passes every call on. A write is recorded first, since one that fails may have happened."""

    async def create_collection(
        self, name: str, metadata: CollectionMetadata, distance: Distance, hnsw: HnswParameters = DEFAULT_HNSW
    ) -> Collection:
        """Create a collection."""
        context.record_write(name)
        return await self._inner.create_collection(name, metadata, distance, hnsw)

    async def update_metadata(self, name: str, metadata: dict[str, Scalar | None], *, merge: bool) -> Collection:
        """Replace a collection's metadata or merge into it."""
        context.record_write(name)
        return await self._inner.update_metadata(name, metadata, merge=merge)

    async def delete_collection(self, name: str) -> None:
        """Delete a collection and its documents."""
        context.record_write(name)
        await self._inner.delete_collection(name)

    async def start_rebuild(self, name: str, hnsw: HnswParameters, sample: int) -> Rebuild:
        """Begin to rebuild a collection's index."""
        context.record_write(name)
        return await self._inner.start_rebuild(name, hnsw, sample)

    async def write(self, name: str, writes: Sequence[Write]) -> list[ServiceError | None]:
        """Write several batches, each with an outcome of its own."""
        context.record_batch(name, sum(len(write.batch) for write in writes))
        return await self._inner.write(name, writes)

    async def update_documents(self, name: str, updates: Sequence[MetadataUpdates]) -> list[ServiceError | None]:
        """Change metadata of documents several times, each with an outcome of its own."""
        context.record_batch(name, sum(map(len, updates)))
        return await self._inner.update_documents(name, updates)

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents. Their number is recorded afterwards."""
        context.record_write(name)
        deleted = await self._inner.delete(name, selection)
        context.record_write(name, deleted)
        return deleted
