"""`ChromaStore`: the contract of `Store` on top of a Chroma backend.

Where Chroma's behaviour differs from the contract, it is corrected here:

- Chroma ignores an `add` of an id that exists: ids are looked up first, or, where that is sufficient, read back after
  the write, and the write is rejected;
- its upsert merges metadata: keys that the new document does not have are removed by name;
- it counts deletes of ids that never existed: only existing documents are deleted and counted;
- it lists collections in the order of their ids, which are random: all are read, and sorted by name;
- it cannot count the documents that a filter selects: their ids alone are read;
- it deletes a collection but not its documents' lists, and attaches them to documents that are written later, in any
  collection: documents with lists are deleted first;
- two replicas may add one id at the same moment: what an add wrote is read back, and undone where another add was first
  with one of its ids;
- a collection that is deleted and created again has another id: a stale lookup is repeated, once.

A method that reads before it writes holds the collection's lock, which other replicas of the service do not see.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from ragstore.chroma.adding import add
from ragstore.chroma.backend import Backend
from ragstore.chroma.change_recorder import ChangeRecorder
from ragstore.chroma.collection_cache import CollectionCache
from ragstore.chroma.counting import count_each
from ragstore.chroma.errors import StaleCollectionId
from ragstore.chroma.first_write import LOCK_PREFIX, first_write
from ragstore.chroma.mapping import make_map
from ragstore.chroma.metadata_merging import update_metadatas
from ragstore.chroma.operations import (
    CountCollections,
    CountRecords,
    CreateCollection,
    DeleteCollection,
    GetCollection,
    GetMaxBatchSize,
    GetRecords,
    GetStatus,
    ListCollections,
    ReplaceMetadata,
)
from ragstore.chroma.rebuilding import Rebuilds
from ragstore.chroma.records import Column, Records, to_matrix
from ragstore.chroma.search import CollectionSearch
from ragstore.chroma.steps import (
    MAX_PAGE,
    ScanProgress,
    collect_values,
    delete_in_steps,
    delete_lists_in_steps,
)
from ragstore.chroma.upserting import upsert
from ragstore.chroma.validation import validate_writes, warn_of_lengths
from ragstore.errors import (
    BatchTooLarge,
    ChromaFailed,
    CollectionNotFound,
    DimensionMismatch,
    InvalidMetadata,
    InvalidName,
    TooLargeForChroma,
)
from ragstore.filters.values import Scalar
from ragstore.kit.errors import ServiceError
from ragstore.kit.weak_registry import WeakRegistry
from ragstore.model.collections import (
    DEFAULT_HNSW,
    SPACE,
    Collection,
    CollectionCount,
    Distance,
    HnswParameters,
    StoreStatus,
)
from ragstore.model.documents import EVERYTHING, Documents, Selection, StoredEmbeddings, Write
from ragstore.model.maps import CollectionMap, MapParameters
from ragstore.model.metadata import (
    MAX_COLLECTION_KEYS,
    CollectionMetadata,
    items_as_json,
    too_many_collection_keys,
    without_nulls,
)
from ragstore.model.metadata_updates import MetadataUpdates
from ragstore.model.queries import CollectionMatches, Query
from ragstore.model.rebuilds import Rebuild


class ChromaStore:
    """A store over a Chroma backend; see `Store` for the contract of each method.

    Args:
        backend: Chroma.
        max_batch_size: maximum number of documents in one write; Chroma's own limit applies where it is lower.
    """

    def __init__(self, backend: Backend, max_batch_size: int) -> None:
        self.backend = ChangeRecorder(backend)
        self._max_batch_size = max_batch_size
        self._search = CollectionSearch(backend)
        self._locks = WeakRegistry(asyncio.Lock)
        self._cache = CollectionCache(lambda name: backend.call(GetCollection(name)))
        self._scans = ScanProgress()
        self._rebuilds = Rebuilds(self, self.backend, self._cache, self._locks, self.max_batch_size)

    async def start(self) -> None:
        """Start. Does not wait for Chroma."""
        await self.backend.start()
        self._rebuilds.open()

    async def close(self) -> None:
        """Close the connection to Chroma."""
        await self._rebuilds.close()
        await self.backend.close()

    async def status(self, *, with_count: bool = True) -> StoreStatus:
        """Get Chroma's status."""
        return await self.backend.call(GetStatus(with_count))

    async def max_batch_size(self) -> int:
        """Get the maximum number of documents in one write: the service's limit or Chroma's, whichever is lower."""
        return min(self._max_batch_size, await self.backend.call(GetMaxBatchSize()))

    # -- collections --------------------------------------------------------------------------

    async def create_collection(
        self, name: str, metadata: CollectionMetadata, distance: Distance, hnsw: HnswParameters = DEFAULT_HNSW
    ) -> Collection:
        """Create a collection."""
        if name.startswith(LOCK_PREFIX):
            raise InvalidName.at("$.name", f"A collection name must not begin with '{LOCK_PREFIX}'")
        return self._cache.put(await self.backend.call(CreateCollection(name, metadata, distance, hnsw)))

    async def get_collection(self, name: str) -> Collection:
        """Look a collection up, never from the cache."""
        return await self._cache.refresh(name)

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections by name."""
        listed = await self.backend.call(ListCollections())
        collections = [collection for collection in listed if not collection.name.startswith(LOCK_PREFIX)]
        collections.sort(key=lambda collection: collection.name)
        return collections[offset:] if limit is None else collections[offset : offset + limit]

    async def count_collections(self) -> int:
        """Count the collections."""
        return await self.backend.call(CountCollections())

    async def count_each(self, collections: Sequence[Collection], max_seconds: float) -> list[CollectionCount]:
        """Count the documents of collections, within a time."""
        ids = [self._cache.current_id(collection.id) for collection in collections]
        with self._cache.using(ids):
            return await count_each(self.backend, ids, max_seconds)

    async def update_metadata(self, name: str, metadata: dict[str, Scalar | None], *, merge: bool) -> Collection:
        """Replace a collection's metadata or merge into it."""
        async with self._locks.get(name):
            collection = await self.get_collection(name)
            updated = without_nulls({**collection.metadata, **metadata} if merge else metadata)
            if collection.is_legacy:
                updated.setdefault(SPACE, collection.distance)
            if len(updated) > MAX_COLLECTION_KEYS:
                raise too_many_collection_keys(len(updated), "$.metadata")
            if updated.get(SPACE, collection.distance) != collection.distance:
                raise InvalidMetadata.at(
                    f"$.metadata.{SPACE}", f"The distance of a collection cannot change: it is '{collection.distance}'"
                )
            try:
                await self.backend.call(ReplaceMetadata(collection.id, updated))
            except StaleCollectionId:
                raise CollectionNotFound(name) from None
            return await self.get_collection(name)

    async def delete_collection(self, name: str) -> None:
        """Delete a collection and its documents."""
        async with self._locks.get(name):
            # A collection that Chroma cannot read or write must be deletable, so that its name can be used again.
            with suppress(ChromaFailed):
                await self._cache.with_collection(name, self._delete_lists)
            self._cache.discard(name)
            await self.backend.call(DeleteCollection(name))
        self._rebuilds.forget(name)

    async def start_rebuild(self, name: str, hnsw: HnswParameters, sample: int) -> Rebuild:
        """Begin to rebuild a collection's index."""
        return await self._rebuilds.start(name, hnsw, sample)

    async def get_rebuild(self, name: str) -> Rebuild:
        """Get the state of the latest rebuild of a collection's index."""
        await self.get_collection(name)
        return self._rebuilds.get(name)

    # -- documents ----------------------------------------------------------------------------

    async def write(self, name: str, writes: Sequence[Write]) -> list[ServiceError | None]:
        """Execute several writes as one; each has its own outcome."""

        async def write(collection: Collection) -> list[ServiceError | None]:
            try:
                async with first_write(self.backend, collection, self.get_collection) as current:
                    return await self._write(current, writes)
            finally:
                self._scans.forget(collection.id)

        async with self._locks.get(name):
            return await self._cache.with_collection(name, write)

    async def update_documents(self, name: str, updates: Sequence[MetadataUpdates]) -> list[ServiceError | None]:
        """Execute several updates of metadata as one; each has its own outcome."""

        async def update(collection: Collection) -> list[ServiceError | None]:
            try:
                return await update_metadatas(self.backend, collection, updates, await self.max_batch_size())
            finally:
                self._scans.forget(collection.id)

        async with self._locks.get(name):
            return await self._cache.with_collection(name, update)

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

        async def read(collection: Collection) -> Documents:
            columns = _columns(with_embeddings)
            found = await self._read(collection, selection, limit=limit, offset=offset, columns=columns)
            return Documents(found.ids, found.texts or [], found.metadatas or [], found.embeddings)

        return await self._cache.with_collection(name, read)

    async def get_ids(self, name: str, selection: Selection, *, limit: int | None = None, offset: int = 0) -> list[str]:
        """Read the ids of selected documents, in insertion order."""

        async def read(collection: Collection) -> list[str]:
            return (await self._read(collection, selection, limit=limit, offset=offset)).ids

        return await self._cache.with_collection(name, read)

    async def get_embeddings(self, name: str, ids: list[str]) -> StoredEmbeddings:
        """Read the embeddings of documents by their ids. Ids without a document are skipped."""

        async def read(collection: Collection) -> StoredEmbeddings:
            if not ids:
                return StoredEmbeddings([], to_matrix(None))
            found = await self.backend.call(GetRecords(collection.id, ids, columns=("embeddings",), in_order=False))
            return StoredEmbeddings(found.ids, to_matrix(None) if found.embeddings is None else found.embeddings)

        return await self._cache.with_collection(name, read)

    async def get_metadata_values(self, name: str, key: str) -> set[str]:
        """Get the distinct values of a metadata key, as JSON."""

        async def collect(collection: Collection) -> set[str]:
            size = min(MAX_PAGE, await self.max_batch_size())
            return await collect_values(
                self.backend, collection.id, size, self._scans, key, lambda metadata: items_as_json(metadata.get(key))
            )

        return await self._cache.with_collection(name, collect)

    async def count(self, name: str, selection: Selection = EVERYTHING) -> int:
        """Count the selected documents, exactly."""

        async def count(collection: Collection) -> int:
            if selection.is_everything:
                return await self.backend.call(CountRecords(collection.id))
            return len(await self._matching(collection, selection))

        return await self._cache.with_collection(name, count)

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents."""

        async def delete(collection: Collection) -> int:
            try:
                return await delete_in_steps(self.backend, collection.id, selection, await self.max_batch_size())
            finally:
                self._scans.forget(collection.id)

        async with self._locks.get(name):
            return await self._cache.with_collection(name, delete)

    async def query(self, name: str, queries: Sequence[Query]) -> CollectionMatches:
        """Find the nearest documents."""

        async def query(collection: Collection) -> CollectionMatches:
            return CollectionMatches(collection, await self._search.query(collection, queries))

        return await self._cache.with_collection(name, query)

    async def query_exact(
        self, name: str, queries: Sequence[Query], max_matches: int, ids: list[str] | None = None
    ) -> CollectionMatches | None:
        """Find the nearest documents by comparison with every match, if few match."""

        async def query(collection: Collection) -> CollectionMatches | None:
            found = await self._search.query_exact(collection, queries, max_matches, ids)
            return None if found is None else CollectionMatches(collection, found.matches, found.compared)

        return await self._cache.with_collection(name, query)

    async def map_collection(self, name: str, parameters: MapParameters) -> CollectionMap:
        """Make a map of a sample of the documents."""
        return await self._cache.with_collection(name, lambda found: make_map(self.backend, found, parameters))

    # -- implementation -----------------------------------------------------------------------

    async def _write(self, collection: Collection, writes: Sequence[Write]) -> list[ServiceError | None]:
        limit = await self.max_batch_size()
        errors = validate_writes(collection, writes, limit)
        if any(isinstance(error, DimensionMismatch) for error in errors):
            fresh = await self.get_collection(collection.name)
            if (fresh.id, fresh.dimension) != (collection.id, collection.dimension):
                return await self._write(fresh, writes)
        valid = [write for write, error in zip(writes, errors, strict=True) if error is None]
        if not valid:
            return errors
        if sum(len(write.batch) for write in valid) > limit:
            return [outcome for write in writes for outcome in await self._write(collection, [write])]
        warn_of_lengths(collection, valid)
        outcomes: list[ServiceError | None] = []
        for kind, alike in itertools.groupby(valid, key=lambda write: write.kind):
            outcomes += await self._write_alike(collection, kind, list(alike))
        of_valid = iter(outcomes)
        return [next(of_valid) if error is None else error for error in errors]

    async def _write_alike(
        self, collection: Collection, kind: Literal["add", "upsert"], writes: list[Write]
    ) -> list[ServiceError | None]:
        """Execute adds, or upserts, as one; each by itself where they are too large together."""
        try:
            return await (add if kind == "add" else upsert)(self.backend, collection, writes)
        except TooLargeForChroma as error:
            if len(writes) == 1:
                count, limit = len(writes[0].batch), await self.max_batch_size()
                return [error if count <= limit else BatchTooLarge(limit, count)]
            return [outcome for write in writes for outcome in await self._write_alike(collection, kind, [write])]

    async def _delete_lists(self, collection: Collection) -> None:
        """Delete the documents whose metadata holds lists, before their collection is deleted."""
        if collection.dimension is not None:
            size = min(MAX_PAGE, await self.max_batch_size())
            await delete_lists_in_steps(self.backend, collection.id, size, self._scans)

    async def _matching(self, collection: Collection, selection: Selection) -> list[str]:
        return (await self._read(collection, selection)).ids

    async def _read(
        self,
        collection: Collection,
        selection: Selection,
        *,
        limit: int | None = None,
        offset: int = 0,
        columns: tuple[Column, ...] = (),
    ) -> Records:
        """Read some columns of the selected records."""
        return await self.backend.call(
            GetRecords(
                collection.id,
                None if selection.ids is None else list(selection.ids),
                where=selection.condition.chroma_where,
                where_document=selection.condition.chroma_where_document,
                limit=limit,
                offset=offset,
                columns=columns,
            )
        )


def _columns(with_embeddings: bool) -> tuple[Column, ...]:
    return ("documents", "metadatas", "embeddings") if with_embeddings else ("documents", "metadatas")
