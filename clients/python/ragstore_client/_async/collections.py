"""The calls of `AsyncClient` on collections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from ragstore_client import _calls as calls
from ragstore_client._async.base import CallSender

if TYPE_CHECKING:
    from ragstore_client import _models as models
    from ragstore_client._models import Distance, Metadata


class CollectionCalls(CallSender):
    """Create, read, update and delete collections."""

    async def create_collection(
        self,
        name: str,
        *,
        metadata: Metadata | None = None,
        embedding_provider: str | None = None,
        embedding_model: str | None = None,
        distance: Distance | None = None,
        get_or_create: bool = False,
        hnsw: models.HnswParameters | None = None,
    ) -> models.CollectionCreated:
        """Create a collection.

        Args:
            name: 3 to 512 characters of `[a-zA-Z0-9._-]`, the first and the last alphanumeric.
            metadata: metadata of the collection; no lists.
            embedding_provider: stored as metadata; overrides the same key in `metadata`.
            embedding_model: stored as metadata; overrides the same key in `metadata`.
            distance: the distance function; `cosine` when None.
            get_or_create: return an existing collection instead of failing.
            hnsw: parameters of Chroma's index, for a collection that is created.

        Returns:
            The collection.

        Raises:
            Conflict: the collection exists, and `get_or_create` is false.
            BadRequest: the name breaks Chroma's rules.
        """
        return await self._send(
            calls.create_collection(
                name,
                metadata=metadata,
                embedding_provider=embedding_provider,
                embedding_model=embedding_model,
                distance=distance,
                get_or_create=get_or_create,
                hnsw=hnsw,
            )
        )

    async def list_collections(
        self, *, limit: int | None = None, offset: int | None = None, counts: bool = False
    ) -> models.CollectionPage:
        """List collections.

        Args:
            limit: maximum number of collections; all when None.
            offset: number of collections to skip.
            counts: whether to count the documents of each collection; without it, each `count` is None.

        Returns:
            One page.
        """
        return await self._send(calls.list_collections(limit=limit, offset=offset, counts=counts))

    async def iter_collections(self, *, page_size: int = 100, counts: bool = False) -> AsyncIterator[models.Collection]:
        """Iterate over all collections.

        Args:
            page_size: number of collections per request.
            counts: whether to count the documents of each collection; without it, each `count` is None.

        Yields:
            Each collection. Collections that are created or deleted during the iteration may shift the pages.
        """
        offset = 0
        while True:
            page = await self.list_collections(limit=page_size, offset=offset, counts=counts)
            if not page.collections:
                return
            for collection in page.collections:
                yield collection
            offset += len(page.collections)

    async def get_collection(self, name: str) -> models.Collection:
        """Get a collection.

        Args:
            name: name of the collection.

        Returns:
            The collection.

        Raises:
            NotFound: the collection does not exist.
        """
        return await self._send(calls.get_collection(name))

    async def update_collection_metadata(
        self, name: str, metadata: Metadata, *, merge: bool = False
    ) -> models.MetadataUpdated:
        """Replace or merge a collection's metadata.

        Args:
            name: name of the collection.
            metadata: the new metadata.
            merge: keep the keys that `metadata` does not name; a value of None removes its key (RFC 7396).

        Returns:
            All metadata after the update.

        Raises:
            NotFound: the collection does not exist.
            BadRequest: the update would change the distance function.
        """
        return await self._send(calls.update_metadata(name, metadata, merge=merge))

    async def delete_collection(self, name: str) -> models.CollectionDeleted:
        """Delete a collection and its documents.

        Args:
            name: name of the collection.

        Returns:
            The name of the deleted collection.

        Raises:
            NotFound: the collection does not exist.
        """
        return await self._send(calls.delete_collection(name))

    async def metadata_values(self, collection: str, field: str, *, limit: int | None = None) -> models.MetadataValues:
        """List the distinct values of a metadata field.

        Args:
            collection: name of the collection.
            field: name of the metadata field.
            limit: maximum number of values.

        Returns:
            The values, sorted, as strings.

        Raises:
            NotFound: the collection does not exist.
        """
        return await self._send(calls.metadata_values(collection, field, limit=limit))
