"""`ExactSearch`: nearest documents by comparison with every match, without Chroma's index.

Chroma's HNSW graph loses documents: embeddings with `l2` or `ip` and differing lengths, many equal embeddings, or
documents that were replaced. No query finds them, not even their own embedding with a filter on their own id (measured
with 1.5.9: up to 356 of 500 documents). A get finds all of them. So the matches' embeddings are read and compared here.

The result is read last, as a whole, and its distances are computed from what that read returned. A result is therefore
consistent, whatever is written while the search runs. That read does not repeat the filter if the filter can be
applied to what it returned: for ids with a filter, Chroma's SQLite looks up each pair of an id and a match (4.5 s for
100 ids and 100,000 matches with 1.5.9).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ragstore.chroma.backend import Backend
from ragstore.chroma.operations import CountRecords, GetRecords
from ragstore.chroma.records import Column, Records
from ragstore.filters import where as metadata_filter
from ragstore.model.collections import Collection
from ragstore.model.distances import distances_to
from ragstore.model.filters.condition import NO_CONDITION, Condition
from ragstore.model.queries import Matches, Query
from ragstore.model.vectors import Vector

CHUNK_VALUES: Final = 256_000
"""Maximum numbers of the embeddings that one call reads: 667 embeddings of 384. Decoding them takes 17 ms, in which the
event loop does nothing else."""

MAX_CHUNK: Final = 2000
"""Maximum embeddings that one call reads."""

ONE_CALL_CHARACTERS: Final = 100_000
"""Expected length of the texts of all matches up to which they are read with the embeddings. A second call for texts
and metadata of the results took 4 to 5 ms more, for 8 to 150 matches with texts of 100 and of 600 characters
(Chroma 1.5.9 as a server, collections of 500 to 10,000 documents)."""

UNKNOWN_CHARACTERS: Final = 5_000
"""Expected length of a text before any text of the collection was read. Up to 20 texts are read then."""

MAX_COLLECTIONS: Final = 2_000
"""Maximum number of collections whose lengths of texts are remembered."""

MAX_ATTEMPTS: Final = 3
"""How often a search is repeated because a result was changed or deleted before it was read."""

_ALL: Final[tuple[Column, ...]] = ("documents", "metadatas", "embeddings")


class FewMatches(NamedTuple):
    """The results of queries with a filter that few documents match.

    Attributes:
        matches: the results of each query.
        compared: number of documents that match the filter.
    """

    matches: list[Matches]
    compared: int


@dataclass(slots=True)
class _Nearest:
    """The nearest documents of one query so far.

    Attributes:
        ids: their ids, nearest first; documents at the same distance in insertion order.
    """

    query: Query
    ids: list[str]
    distances: Vector

    def add(self, ids: list[str], distances: Vector) -> None:
        """Compare with further documents, which were inserted later."""
        merged = np.concatenate([self.distances, distances])
        order = np.argsort(merged, kind="stable")[: self.query.top_k]
        known = len(self.ids)
        self.ids = [self.ids[index] if index < known else ids[index - known] for index in order.tolist()]
        self.distances = merged[order]


class ExactSearch:
    """Searches collections by comparison.

    Args:
        backend: Chroma.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lengths: dict[str, float] = {}

    async def nearest_of_few(
        self, collection: Collection, queries: Sequence[Query], max_matches: int
    ) -> FewMatches | None:
        """The nearest documents of each query, if few documents match.

        Args:
            collection: the collection, which has a dimension.
            queries: queries that have one filter.
            max_matches: maximum number of matches.

        Returns:
            The results of each query; None if more documents match.
        """
        condition = queries[0].condition
        # A text filter is expensive, so it runs only once.
        in_one_call = condition.where_document is not None or self._is_one_call(collection, max_matches)
        columns: tuple[Column, ...] = _ALL if in_one_call else ("embeddings",)
        for _ in range(MAX_ATTEMPTS):
            found = await self._backend.call(_get(collection, condition, limit=max_matches + 1, columns=columns))
            compared = len(found.ids)
            if compared > max_matches:
                return None
            if in_one_call:
                break
            nearest = _nothing_yet(queries)
            _compare(nearest, found, collection)
            chosen = await self._read(collection, condition, nearest)
            if chosen is not None:
                found = chosen
                break
        else:
            found = await self._backend.call(_get(collection, condition, limit=max_matches, columns=_ALL))
            compared = len(found.ids)
        self._note_lengths(collection, found)
        return FewMatches([_matches(query, found, collection) for query in queries], compared)

    async def ids_or_count(self, collection: Collection, condition: Condition) -> list[str] | int:
        """The matches' ids; without a filter only their number, which Chroma returns faster."""
        if condition.is_none:
            return await self._backend.call(CountRecords(collection.id))
        return (await self._backend.call(_get(collection, condition))).ids

    async def nearest(self, collection: Collection, queries: Sequence[Query], ids: list[str] | None) -> list[Matches]:
        """The nearest documents of each query, by comparison with all matches, chunk by chunk.

        Args:
            collection: the collection, which has a dimension.
            queries: queries that have one filter.
            ids: ids of the matches; None if they are to be read.
        """
        condition = queries[0].condition
        candidates: list[str] = []
        for _ in range(MAX_ATTEMPTS):
            if ids is None:
                ids = (await self._backend.call(_get(collection, condition))).ids
            if self._is_one_call(collection, len(ids)):
                candidates = ids
                chosen = await self._read_matching(collection, condition, ids)
            else:
                nearest = await self._nearest_ids(collection, queries, ids)
                candidates = list(dict.fromkeys(key for each in nearest for key in each.ids))
                chosen = await self._read(collection, condition, nearest)
            if chosen is not None:
                self._note_lengths(collection, chosen)
                return [_matches(query, chosen, collection) for query in queries]
            ids = None
        # Writes overtake the search. The result is read from the last candidates.
        found = await self._backend.call(_get(collection, condition, candidates, columns=_ALL))
        return [_matches(query, found, collection) for query in queries]

    def _is_one_call(self, collection: Collection, count: int) -> bool:
        """Whether texts and metadata of a number of documents are read with their embeddings."""
        length = self._lengths.get(collection.id, UNKNOWN_CHARACTERS)
        is_one_chunk = count * (collection.dimension or 1) <= CHUNK_VALUES
        return is_one_chunk and count * length <= ONE_CALL_CHARACTERS

    def _note_lengths(self, collection: Collection, found: Records) -> None:
        """Remember the mean length of texts, averaged with half the weight for the latest ones."""
        if not found.texts:
            return
        length = sum(map(len, found.texts)) / len(found.texts)
        if len(self._lengths) >= MAX_COLLECTIONS:
            self._lengths.clear()
        self._lengths[collection.id] = (self._lengths.get(collection.id, length) + length) / 2

    async def _nearest_ids(self, collection: Collection, queries: Sequence[Query], ids: list[str]) -> list[_Nearest]:
        """Compare all matches with each query, chunk by chunk."""
        nearest = _nothing_yet(queries)
        for chunk in _chunks(ids, collection.dimension or 1):
            found = await self._backend.call(GetRecords(collection.id, chunk, columns=("embeddings",), in_order=False))
            _compare(nearest, found, collection)
        return nearest

    async def _read(self, collection: Collection, condition: Condition, nearest: list[_Nearest]) -> Records | None:
        """Read the nearest documents of all queries.

        Returns:
            The documents; None if one of them was deleted, replaced, or does not match any more.
        """
        distances: dict[str, list[tuple[Query, float]]] = {}
        for each in nearest:
            for key, distance in zip(each.ids, each.distances.tolist(), strict=True):
                distances.setdefault(key, []).append((each.query, distance))
        chosen = await self._read_matching(collection, condition, list(distances))
        if chosen is None or chosen.embeddings is None:
            return None
        for key, embedding in zip(chosen.ids, chosen.embeddings, strict=True):
            for query, distance in distances[key]:
                now = distances_to(embedding[np.newaxis], query.embedding, collection.distance)
                if float(now[0]) != distance:
                    return None
        return chosen

    async def _read_matching(self, collection: Collection, condition: Condition, ids: list[str]) -> Records | None:
        """Read documents with all columns.

        Returns:
            The documents; None if one of them was deleted, or does not match any more.
        """
        if not ids:
            return Records([], [], [], np.empty((0, 0), dtype=np.float32))
        is_applied_here = condition.is_exact_here
        found = await self._backend.call(
            _get(collection, NO_CONDITION if is_applied_here else condition, ids, columns=_ALL)
        )
        if len(found.ids) < len(ids):
            return None
        if is_applied_here and not all(metadata_filter.matches(condition.where, of) for of in found.metadatas or []):
            return None
        return found


def _nothing_yet(queries: Sequence[Query]) -> list[_Nearest]:
    return [_Nearest(query, [], np.empty(0, dtype=np.float32)) for query in queries]


def _get(
    collection: Collection,
    condition: Condition,
    ids: list[str] | None = None,
    *,
    limit: int | None = None,
    columns: tuple[Column, ...] = (),
) -> GetRecords:
    return GetRecords(
        collection.id,
        ids,
        where=condition.chroma_where,
        where_document=condition.chroma_where_document,
        limit=limit,
        columns=columns,
    )


def _chunks(ids: list[str], dimension: int) -> Iterator[list[str]]:
    size = max(1, min(MAX_CHUNK, CHUNK_VALUES // dimension))
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def _compare(nearest: list[_Nearest], found: Records, collection: Collection) -> None:
    """Compare documents with each query."""
    if found.embeddings is None or not found.ids:
        return
    for each in nearest:
        each.add(found.ids, distances_to(found.embeddings, each.query.embedding, collection.distance))


def _matches(query: Query, found: Records, collection: Collection) -> Matches:
    """The `top_k` nearest of documents that were read with all columns."""
    texts, metadatas = found.texts or [], found.metadatas or []
    if found.embeddings is None or not found.ids:
        return Matches([], [], [], [], None)
    distances = distances_to(found.embeddings, query.embedding, collection.distance)
    order = np.argsort(distances, kind="stable")[: query.top_k]
    indexes = order.tolist()
    return Matches(
        [found.ids[index] for index in indexes],
        [texts[index] for index in indexes],
        [metadatas[index] for index in indexes],
        [float(distances[index]) for index in indexes],
        found.embeddings[order] if query.with_embeddings else None,
    )
