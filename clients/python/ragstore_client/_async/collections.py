"""The calls of `AsyncClient` that concern collections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from ragstore_client import _calls as calls
from ragstore_client._async.base import CallSender

if TYPE_CHECKING:
    from ragstore_client import _models as models
    from ragstore_client._models import Distance, Metadata


class CollectionCalls(CallSender):
    """Create, look at, change and delete collections."""

    async def create_collection(
        self,
        name: str,
        *,
        metadata: Metadata | None = None,
        embedding_provider: str | None = None,
        embedding_model: str | None = None,
        distance: Distance | None = None,
        get_or_create: bool = False,
    ) -> models.CollectionCreated:
        """Create a collection. See `Client.create_collection`."""
        return await self._send(
            calls.create_collection(
                name,
                metadata=metadata,
                embedding_provider=embedding_provider,
                embedding_model=embedding_model,
                distance=distance,
                get_or_create=get_or_create,
            )
        )

    async def list_collections(self, *, limit: int | None = None, offset: int | None = None) -> models.CollectionPage:
        """List collections. See `Client.list_collections`."""
        return await self._send(calls.list_collections(limit=limit, offset=offset))

    async def iter_collections(self, *, page_size: int = 100) -> AsyncIterator[models.Collection]:
        """Go through all collections. See `Client.iter_collections`."""
        offset = 0
        while page := (await self.list_collections(limit=page_size, offset=offset)).collections:
            for collection in page:
                yield collection
            offset += len(page)

    async def get_collection(self, name: str) -> models.Collection:
        """Look at a collection. See `Client.get_collection`."""
        return await self._send(calls.get_collection(name))

    async def update_collection_metadata(
        self, name: str, metadata: Metadata, *, merge: bool = False
    ) -> models.MetadataUpdated:
        """Change a collection's metadata. See `Client.update_collection_metadata`."""
        return await self._send(calls.update_metadata(name, metadata, merge=merge))

    async def delete_collection(self, name: str) -> models.CollectionDeleted:
        """Delete a collection and all that is in it. See `Client.delete_collection`."""
        return await self._send(calls.delete_collection(name))

    async def metadata_values(self, collection: str, field: str, *, limit: int | None = None) -> models.MetadataValues:
        """List the distinct values of a metadata field. See `Client.metadata_values`."""
        return await self._send(calls.metadata_values(collection, field, limit=limit))
