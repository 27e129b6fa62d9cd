"""`ChromaStore`: a store that means what it says, made of a backend that does not.

What Chroma does, and what is done about it here:

- it drops an `add` of an id that is taken: ids are looked up first, or what was written is looked at afterwards where
  that is enough, and the write is refused;
- its upsert merges metadata: keys that the new document does not have are removed by name;
- it counts deletes of ids that were never there: only those found are deleted, and counted;
- it lists collections in the order of their ids, which are random: all are read, and sorted by name;
- it cannot count what a filter selects: the ids alone are read;
- it deletes a collection but not its documents' lists, and gives them to documents that come later, in whatever
  collection: documents with lists are deleted first;
- two replicas may add one id at the same moment: what an add wrote is looked at afterwards, and taken back where
  another one was first with one of its ids;
- a collection that is deleted and created again has another id: a lookup that went stale is made again, once.

What reads before it writes holds the collection's lock. Another replica of the service is not held by it.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import numpy as np

from ragstore.chroma.backend import (
    MAX_FLOAT32,
    Backend,
    QueryResult,
    Records,
    StaleCollectionId,
)
from ragstore.chroma.collection_cache import CollectionCache
from ragstore.chroma.errors import wrong_dimension
from ragstore.chroma.merging import merge
from ragstore.chroma.query_groups import in_calls
from ragstore.chroma.validation import validate_writes
from ragstore.errors import (
    ChromaFailed,
    CollectionNotFound,
    DimensionMismatch,
    DocumentsExist,
    InvalidMetadata,
    TooLargeForChroma,
)
from ragstore.kit.errors import ServiceError
from ragstore.kit.weak_registry import WeakRegistry
from ragstore.model.collections import SPACE, Collection, Distance, StoreStatus
from ragstore.model.documents import EVERYTHING, Documents, Selection, Write
from ragstore.model.metadata import (
    MAX_COLLECTION_KEYS,
    CollectionMetadata,
    Metadata,
    Scalar,
    too_many_collection_keys,
    without_nulls,
)
from ragstore.model.queries import Found, Hits, Query


class ChromaStore:
    """A store over a Chroma backend; see `Store` for what each method promises.

    Args:
        backend: Chroma.
        max_batch_size: most documents in one write; Chroma's own limit applies where it is lower.
    """

    def __init__(self, backend: Backend, max_batch_size: int) -> None:
        self._backend = backend
        self._max_batch_size = max_batch_size
        self._locks = WeakRegistry(asyncio.Lock)
        self._lookups = CollectionCache(backend.get_collection)

    async def start(self) -> None:
        """Begin; does not wait for Chroma."""
        await self._backend.start()

    async def close(self) -> None:
        """Let go of Chroma."""
        await self._backend.close()

    async def status(self) -> StoreStatus:
        """Ask Chroma how it is."""
        return await self._backend.status()

    # -- collections --------------------------------------------------------------------------

    async def create_collection(self, name: str, metadata: CollectionMetadata, distance: Distance) -> Collection:
        """Create a collection."""
        return self._lookups.remember(await self._backend.create_collection(name, metadata, distance))

    async def get_collection(self, name: str) -> Collection:
        """Look a collection up, always anew."""
        return await self._lookups.fresh(name)

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections by name."""
        collections = await self._backend.list_collections(None, 0)
        collections.sort(key=lambda collection: collection.name)
        return collections[offset:] if limit is None else collections[offset : offset + limit]

    async def count_collections(self) -> int:
        """How many collections there are."""
        return await self._backend.count_collections()

    async def update_metadata(self, name: str, metadata: dict[str, Scalar | None], *, merge: bool) -> Collection:
        """Replace a collection's metadata or merge into it."""
        async with self._locks.of(name):
            collection = await self.get_collection(name)
            updated = without_nulls({**collection.metadata, **metadata} if merge else metadata)
            if len(updated) > MAX_COLLECTION_KEYS:
                raise too_many_collection_keys(len(updated), "$.metadata")
            if updated.get(SPACE, collection.distance) != collection.distance:
                raise InvalidMetadata.at(
                    f"$.metadata.{SPACE}", f"The distance of a collection cannot change: it is '{collection.distance}'"
                )
            try:
                await self._backend.replace_metadata(collection.id, updated)
            except StaleCollectionId:
                raise CollectionNotFound(name) from None
            return await self.get_collection(name)

    async def delete_collection(self, name: str) -> None:
        """Delete a collection and its documents."""
        async with self._locks.of(name):
            # A collection that Chroma fails to read or to write must not keep its name for ever.
            with suppress(ChromaFailed):
                await self._lookups.with_collection(name, self._delete_lists)
            self._lookups.forget(name)
            await self._backend.delete_collection(name)

    # -- documents ----------------------------------------------------------------------------

    async def write(self, name: str, writes: Sequence[Write]) -> list[ServiceError | None]:
        """Write several batches as one, each with an outcome of its own."""
        async with self._locks.of(name):
            return await self._lookups.with_collection(name, lambda collection: self._write(collection, writes))

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
            found = await self._read(collection, selection, limit=limit, offset=offset, include=columns)
            return Documents(found.ids, found.texts or [], found.metadatas or [], found.embeddings)

        return await self._lookups.with_collection(name, read)

    async def get_ids(self, name: str, selection: Selection) -> list[str]:
        """Read the ids of all documents that are meant, in insertion order."""
        return await self._lookups.with_collection(name, lambda collection: self._matching(collection, selection))

    async def get_metadatas(self, name: str, selection: Selection, *, limit: int, offset: int) -> list[Metadata]:
        """Read documents' metadata alone, in insertion order."""

        async def read(collection: Collection) -> list[Metadata]:
            found = await self._read(collection, selection, limit=limit, offset=offset, include=("metadatas",))
            return found.metadatas or []

        return await self._lookups.with_collection(name, read)

    async def count(self, name: str, selection: Selection = EVERYTHING) -> int:
        """How many documents are meant, exactly."""

        async def count(collection: Collection) -> int:
            if selection.is_everything:
                return await self._backend.count(collection.id)
            return len(await self._matching(collection, selection))

        return await self._lookups.with_collection(name, count)

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents."""

        async def delete(collection: Collection) -> int:
            found = await self._matching(collection, selection)
            await self._delete(collection, found)
            return len(found)

        async with self._locks.of(name):
            return await self._lookups.with_collection(name, delete)

    async def query(self, name: str, queries: Sequence[Query]) -> Found:
        """Find the nearest documents."""

        async def ask(collection: Collection) -> Found:
            for query in queries:
                self._check_dimension(collection, len(query.embedding), "$.query_embedding")
            if collection.dimension is None:
                return Found(collection, [Hits([], [], [], [], None) for _ in queries])
            return Found(collection, await self._ask(collection, queries))

        return await self._lookups.with_collection(name, ask)

    # -- how ----------------------------------------------------------------------------------

    async def _write(self, collection: Collection, writes: Sequence[Write]) -> list[ServiceError | None]:
        limit = min(self._max_batch_size, await self._backend.max_batch_size())
        refusals = validate_writes(collection, writes, limit)
        if any(isinstance(refusal, DimensionMismatch) for refusal in refusals):
            fresh = await self.get_collection(collection.name)
            if (fresh.id, fresh.dimension) != (collection.id, collection.dimension):
                return await self._write(fresh, writes)
        fitting = [write for write, refusal in zip(writes, refusals, strict=True) if refusal is None]
        if not fitting:
            return refusals
        if sum(len(write.batch) for write in fitting) > limit:
            return [outcome for write in writes for outcome in await self._write(collection, [write])]
        outcomes: list[ServiceError | None] = []
        for kind, alike in itertools.groupby(fitting, key=lambda write: write.kind):
            outcomes += await self._written(collection, kind, list(alike))
        told = iter(outcomes)
        return [next(told) if refusal is None else refusal for refusal in refusals]

    async def _written(
        self, collection: Collection, kind: Literal["add", "upsert"], writes: list[Write]
    ) -> list[ServiceError | None]:
        """Write adds, or upserts, as one; each by itself where they are too large together."""
        try:
            return await (self._add if kind == "add" else self._upsert)(collection, writes)
        except TooLargeForChroma as error:
            if len(writes) == 1:
                return [error]
            return [outcome for write in writes for outcome in await self._written(collection, kind, [write])]

    async def _upsert(self, collection: Collection, writes: list[Write]) -> list[ServiceError | None]:
        """Write upserts as one."""
        ids = _ids_of(writes)
        present = await self._backend.get(collection.id, ids=ids, include=("metadatas",))
        before = dict(zip(present.ids, present.metadatas or [], strict=True))
        merged = merge(collection.name, writes, before)
        if merged.records.ids:
            await self._backend.upsert(collection.id, merged.records)
        return merged.outcomes

    async def _add(self, collection: Collection, writes: list[Write]) -> list[ServiceError | None]:
        """Write adds as one. What loses an id to another replica is taken back, its other ids included."""
        merged = merge(collection.name, writes, await self._taken(collection, writes))
        outcomes = list(merged.outcomes)
        accepted = [write for write, refusal in zip(writes, outcomes, strict=True) if refusal is None]
        if not accepted:
            return outcomes
        mark_of = {key: write.mark for write in accepted for key in write.batch.ids}
        marks = [mark_of[key] for key in merged.records.ids]
        kept = await self._backend.add(collection.id, merged.records, marks)
        for place, write in enumerate(writes):
            ids = write.batch.ids
            lost = [] if outcomes[place] else [row for row, key in enumerate(ids) if key not in kept]
            if lost:
                outcomes[place] = DocumentsExist(collection.name, [ids[row] for row in lost], lost)
                if mine := [key for key in ids if key in kept]:
                    await self._backend.withdraw(collection.id, mine, write.mark)
        return outcomes

    async def _taken(self, collection: Collection, writes: list[Write]) -> dict[str, Metadata]:
        """Which ids of some adds are taken, as far as that must be known before they are written.

        An add of one document needs no look where Chroma passes over a taken id: it is written or it is not, and its
        mark tells which. One of several documents must not be written in part, even for a moment.
        """
        looked_up = [write for write in writes if len(write.batch) > 1 or not self._backend.conditional]
        if not looked_up:
            return {}
        present = await self._backend.marks(collection.id, _ids_of(looked_up))
        # What bears a mark of these writes is theirs: they were tried before, and no answer came.
        own = {write.mark for write in writes}
        return {key: {} for key, mark in present.items() if mark not in own}

    async def _ask(self, collection: Collection, queries: Sequence[Query]) -> list[Hits]:
        """Queries with the same filters leave as one."""
        answers: dict[int, Hits] = {}
        for positions in in_calls(queries):
            first = queries[positions[0]]
            neighbours = await self._backend.query(
                collection.id,
                np.stack([queries[position].embedding for position in positions]),
                max(queries[position].top_k for position in positions),
                where=first.condition.chroma_where,
                where_document=first.condition.chroma_where_document,
                include=_columns(first.with_embeddings),
            )
            for position, found in zip(positions, neighbours, strict=True):
                answers[position] = _hits(found, queries[position].top_k)
        return [answers[position] for position in range(len(queries))]

    async def _delete_lists(self, collection: Collection) -> None:
        """Delete the documents whose metadata holds lists, ahead of their collection."""
        if collection.dimension is None:
            return
        listed: list[str] = []
        size = await self._backend.max_batch_size()
        for offset in itertools.count(0, size):
            page = await self._backend.get(collection.id, limit=size, offset=offset, include=("metadatas",))
            for document_id, metadata in zip(page.ids, page.metadatas or [], strict=True):
                if any(isinstance(value, list) for value in metadata.values()):
                    listed.append(document_id)
            if len(page.ids) < size:
                break
        await self._delete(collection, listed)

    async def _delete(self, collection: Collection, ids: list[str]) -> None:
        size = await self._backend.max_batch_size()
        for start in range(0, len(ids), size):
            await self._backend.delete(collection.id, ids[start : start + size])

    async def _matching(self, collection: Collection, selection: Selection) -> list[str]:
        """Ids of the documents that a selection means."""
        return (await self._read(collection, selection)).ids

    async def _read(
        self,
        collection: Collection,
        selection: Selection,
        *,
        limit: int | None = None,
        offset: int = 0,
        include: tuple[str, ...] = (),
    ) -> Records:
        """Records that a selection means, with the columns asked for."""
        return await self._backend.get(
            collection.id,
            ids=None if selection.ids is None else list(selection.ids),
            where=selection.condition.chroma_where,
            where_document=selection.condition.chroma_where_document,
            limit=limit,
            offset=offset,
            include=include,
        )

    @staticmethod
    def _check_dimension(collection: Collection, dimension: int, path: str) -> None:
        if collection.dimension is not None and dimension != collection.dimension:
            raise wrong_dimension(collection.dimension, dimension, path)


def _ids_of(writes: Sequence[Write]) -> list[str]:
    """The ids that writes name, each once."""
    return list(dict.fromkeys(document_id for write in writes for document_id in write.batch.ids))


def _columns(with_embeddings: bool) -> tuple[str, ...]:
    return ("documents", "metadatas", "embeddings") if with_embeddings else ("documents", "metadatas")


def _hits(found: QueryResult, top_k: int) -> Hits:
    """Trim a query's neighbours to what was asked for, with distances that are numbers."""
    distances = [distance if math.isfinite(distance) else MAX_FLOAT32 for distance in found.distances]
    order = sorted(range(len(distances)), key=distances.__getitem__)[:top_k]
    texts, metadatas = found.texts or [], found.metadatas or []
    return Hits(
        ids=[found.ids[place] for place in order],
        texts=[texts[place] for place in order],
        metadatas=[metadatas[place] for place in order],
        distances=[distances[place] for place in order],
        embeddings=None if found.embeddings is None else found.embeddings[order],
    )
