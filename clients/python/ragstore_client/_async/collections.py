"""The calls of `AsyncClient` on collections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Literal, Unpack

from ragstore_client import _calls as calls
from ragstore_client import _models as models
from ragstore_client._async.base import CallSender
from ragstore_client._exceptions import CollectionMismatch, InvalidInput, NotFound
from ragstore_client._models import Distance, Metadata
from ragstore_client._options import CallOptions


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
        if_exists: Literal["fail", "match", "use"] | None = None,
        **options: Unpack[CallOptions],
    ) -> models.CollectionCreated:
        """Create a collection.

        Args:
            name: 3 to 512 characters of `[a-zA-Z0-9._-]`, the first and the last alphanumeric.
            metadata: metadata of the collection; no lists.
            embedding_provider: stored as metadata; overrides the same key in `metadata`.
            embedding_model: stored as metadata; overrides the same key in `metadata`.
            distance: the distance function; `cosine` when None.
            get_or_create: the same as `if_exists="match"`.
            hnsw: parameters of Chroma's index, for a collection that is created.
            if_exists: what to do when the collection exists: `fail`; `match`, to return it if it has the distance
                function and the embedding provider and model that are given here; or `use`, to return it as it is.
                Neither of the last two changes it. The default is `fail`.
            **options: see `CallOptions`.

        Returns:
            The collection.

        Raises:
            Conflict: the collection exists, and may not.
            CollectionMismatch: the collection exists with another distance function, embedding provider or model.
            BadRequest: the name breaks Chroma's rules.
        """
        policy = if_exists or ("match" if get_or_create else "fail")
        if policy not in ("fail", "match", "use"):
            raise InvalidInput("if_exists must be 'fail', 'match' or 'use'")
        created = await self._send(
            calls.create_collection(
                name,
                metadata=metadata,
                embedding_provider=embedding_provider,
                embedding_model=embedding_model,
                distance=distance,
                get_or_create=policy != "fail",
                hnsw=hnsw,
            ),
            options,
        )
        if policy == "match" and created.status == "exists":
            given = {**(metadata or {})}
            wanted = {
                "distance": distance or given.get("hnsw:space"),
                "embedding_provider": embedding_provider or given.get("embedding_provider"),
                "embedding_model": embedding_model or given.get("embedding_model"),
            }
            _check_match(name, wanted, {**created.metadata, "distance": created.distance})
        return created

    async def list_collections(
        self,
        *,
        limit: int | None = None,
        offset: int | None = None,
        counts: bool = True,
        **options: Unpack[CallOptions],
    ) -> models.CollectionPage:
        """List collections.

        Args:
            limit: maximum number of collections; all when None.
            offset: number of collections to skip.
            counts: whether to count the documents of each collection. If False, each `count` is None.
            **options: see `CallOptions`.

        Returns:
            One page.
        """
        call = calls.list_collections(limit=limit, offset=offset, counts=counts)
        return await self._send(call, options)

    async def iter_collections(
        self, *, page_size: int = 100, counts: bool = True, **options: Unpack[CallOptions]
    ) -> AsyncIterator[models.Collection]:
        """Iterate over all collections.

        Args:
            page_size: number of collections per request.
            counts: whether to count the documents of each collection. If False, each `count` is None.
            **options: see `CallOptions`.

        Yields:
            Each collection. Collections that are created or deleted during the iteration may shift the pages.
        """
        offset = 0
        while True:
            page = await self.list_collections(limit=page_size, offset=offset, counts=counts, **options)
            if not page.collections:
                return
            for collection in page.collections:
                yield collection
            offset += len(page.collections)

    async def collection_exists(self, name: str, **options: Unpack[CallOptions]) -> bool:
        """Check whether a collection exists, and the key may see it.

        Args:
            name: name of the collection.
            **options: see `CallOptions`.

        Raises:
            NotFound: what responded is no ragstore service.
        """
        try:
            await self._send(calls.get_collection(name), options)
        except NotFound as error:
            if error.code == "collection_not_found":
                return False
            raise
        return True

    async def get_collection(self, name: str, **options: Unpack[CallOptions]) -> models.Collection:
        """Get a collection.

        Args:
            name: name of the collection.
            **options: see `CallOptions`.

        Returns:
            The collection.

        Raises:
            NotFound: the collection does not exist.
        """
        return await self._send(calls.get_collection(name), options)

    async def update_collection_metadata(
        self, name: str, metadata: Metadata, *, merge: bool = True, **options: Unpack[CallOptions]
    ) -> models.MetadataUpdated:
        """Change a collection's metadata.

        Args:
            name: name of the collection.
            metadata: the new metadata.
            merge: keep the keys that `metadata` does not name; None removes a key (RFC 7396). False replaces all
                metadata, the name of the embedding model among them.
            **options: see `CallOptions`.

        Returns:
            All metadata after the update.

        Raises:
            NotFound: the collection does not exist.
            BadRequest: the update would change the distance function.
        """
        return await self._send(calls.update_metadata(name, metadata, merge=merge), options)

    async def delete_collection(self, name: str, **options: Unpack[CallOptions]) -> models.CollectionDeleted:
        """Delete a collection and its documents.

        Args:
            name: name of the collection.
            **options: see `CallOptions`.

        Returns:
            The name of the deleted collection.

        Raises:
            NotFound: the collection does not exist.
        """
        return await self._send(calls.delete_collection(name), options)

    async def start_rebuild(
        self,
        collection: str,
        *,
        hnsw: models.HnswParameters | None = None,
        sample: int | None = None,
        **options: Unpack[CallOptions],
    ) -> models.Rebuild:
        """Begin to rebuild a collection's index in the background, while the collection is read and written.

        Args:
            collection: name of the collection.
            hnsw: parameters of the new index; omitted parameters stay as they are.
            sample: number of documents that are looked for in the old index and in the new one; 500 by default.
            **options: see `CallOptions`.

        Returns:
            The state; `get_rebuild` returns it later.

        Raises:
            Conflict: the index is being rebuilt, or Chroma is a server.
            NotFound: the collection does not exist.
        """
        return await self._send(calls.start_rebuild(collection, hnsw=hnsw, sample=sample), options)

    async def get_rebuild(self, collection: str, **options: Unpack[CallOptions]) -> models.Rebuild:
        """Get the state of the latest rebuild of a collection's index since the service started.

        Args:
            collection: name of the collection.
            **options: see `CallOptions`.

        Raises:
            NotFound: the collection does not exist, or there was no rebuild.
        """
        return await self._send(calls.get_rebuild(collection), options)

    async def metadata_values(
        self,
        collection: str,
        field: str,
        *,
        limit: int | None = None,
        typed: bool = False,
        **options: Unpack[CallOptions],
    ) -> models.MetadataValues:
        """List the distinct values of a metadata field.

        Args:
            collection: name of the collection.
            field: name of the metadata field.
            limit: maximum number of values.
            typed: whether to return the values with their types, too, as a filter needs them.
            **options: see `CallOptions`.

        Returns:
            The values, sorted, as strings.

        Raises:
            NotFound: the collection does not exist.
        """
        return await self._send(calls.metadata_values(collection, field, limit=limit, typed=typed), options)


def _check_match(name: str, wanted: Mapping[str, object], found: Mapping[str, object]) -> None:
    for key, value in wanted.items():
        if value is not None and found.get(key) != value:
            raise CollectionMismatch(
                f"collection {name!r} exists with {key} {found.get(key)!r}, not {value!r}; "
                "if_exists='use' takes it as it is"
            )
