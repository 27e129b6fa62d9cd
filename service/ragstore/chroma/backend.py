"""What ragstore asks of Chroma: the `Backend` protocol.

A backend does what Chroma does, no more: `ChromaStore` makes a store of it. Both kinds, embedded and remote, have these
operations and raise ragstore's errors, never Chroma's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np

from ragstore.model.collections import DISTANCES, Collection, Distance, StoreStatus
from ragstore.model.metadata import CollectionMetadata, Metadata, MetadataValue
from ragstore.model.vectors import Matrix

ChromaFilter: TypeAlias = dict[str, object] | None
"""A filter in Chroma's own language."""

WrittenMetadata: TypeAlias = dict[str, MetadataValue | None] | None
"""Metadata for an upsert. Chroma merges: a null removes a key that the document had."""

MAX_FLOAT32: Final = 3.4028234663852886e38
"""Stands for a distance too large for float32. Chroma gives null over HTTP, and inf or NaN embedded."""

SYNC_THRESHOLD: Final = 1000
"""Chroma's own. It takes none below 3."""

CLEARED: Final[Mapping[str, None]] = {"ragstore": None}
"""Metadata to replace all metadata with none. Chroma refuses `{}`, and stores nothing for a null (measured)."""


def index_configuration(distance: Distance, sync_threshold: int) -> dict[str, dict[str, object]]:
    """The configuration of a new collection's index.

    Args:
        distance: the distance.
        sync_threshold: writes after which the index is saved; distributed Chroma passes over it.

    Returns:
        Chroma's `configuration`. What is Chroma's own is left to it.
    """
    index: dict[str, object] = {"space": distance}
    if sync_threshold != SYNC_THRESHOLD:
        # Chroma wants its batches to be no larger; 100 is its own size.
        index |= {"sync_threshold": sync_threshold, "batch_size": min(100, sync_threshold)}
    return {"hnsw": index}


def distance_of(configuration: dict[str, object]) -> Distance:
    """Read a collection's distance from its configuration.

    Args:
        configuration: Chroma's `configuration_json`; one machine has an `hnsw` index, distributed Chroma a `spann` one.

    Returns:
        The distance; `l2` where none is told, as it is Chroma's own default.
    """
    for index in ("hnsw", "spann"):
        settings = configuration.get(index)
        if isinstance(settings, dict) and settings.get("space") in DISTANCES:
            return DISTANCES[settings["space"]]
    return "l2"


def matrix(rows: Sequence[Sequence[float]] | None) -> Matrix:
    """Embeddings as Chroma gives them, as a matrix.

    Args:
        rows: n vectors of one dimension; None counts as none.

    Returns:
        Matrix of shape (n, dimension), float32.
    """
    return np.asarray(rows, dtype=np.float32) if rows else np.empty((0, 0), dtype=np.float32)


def present_texts(texts: Sequence[str | None] | None) -> list[str] | None:
    """A column of texts; a record that others wrote without one counts as empty."""
    return None if texts is None else [text or "" for text in texts]


def present_metadatas(metadatas: Sequence[Mapping[str, MetadataValue] | None] | None) -> list[Metadata] | None:
    """A column of metadatas; Chroma gives None for an empty one."""
    return None if metadatas is None else [dict(metadata) if metadata else {} for metadata in metadatas]


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records to write, by columns.

    Attributes:
        ids: n ids, no two alike.
        embeddings: matrix of shape (n, dimension).
        texts: n texts.
        metadatas: n metadatas.
    """

    ids: list[str]
    embeddings: Matrix
    texts: list[str]
    metadatas: list[WrittenMetadata]


@dataclass(frozen=True, slots=True)
class Records:
    """What a get found, by columns. A column is None when it was not asked for."""

    ids: list[str]
    texts: list[str] | None = None
    metadatas: list[Metadata] | None = None
    embeddings: Matrix | None = None


@dataclass(frozen=True, slots=True)
class QueryResult(Records):
    """What one vector of a query found, nearest first."""

    distances: tuple[float, ...] = ()


def neighbours(
    ids: Sequence[list[str]],
    texts: Sequence[Sequence[str | None]] | None,
    metadatas: Sequence[Sequence[Mapping[str, MetadataValue] | None]] | None,
    embeddings: Sequence[Sequence[Sequence[float]]] | None,
    distances: Sequence[Sequence[float | None]] | None,
) -> list[QueryResult]:
    """Turn the answer to a query of m vectors into m parts.

    Args:
        ids: m lists of ids.
        texts: m lists of texts, or None when not asked for.
        metadatas: m lists of metadatas, or None when not asked for.
        embeddings: m lists of vectors, or None when not asked for.
        distances: m lists of distances; null stands for one too large.

    Returns:
        m parts.
    """
    return [
        QueryResult(
            ids=ids[place],
            texts=None if texts is None else present_texts(texts[place]),
            metadatas=None if metadatas is None else present_metadatas(metadatas[place]),
            embeddings=None if embeddings is None else matrix(embeddings[place]),
            distances=tuple(MAX_FLOAT32 if far is None else far for far in (distances or [()] * len(ids))[place]),
        )
        for place in range(len(ids))
    ]


class StaleCollectionId(Exception):
    """The collection with this id is no more; its name may stand for another one by now."""


class Backend(Protocol):
    """Chroma's operations. A collection is named by its id but where it is looked up, created or deleted."""

    @property
    def conditional(self) -> bool:
        """Whether `add` itself passes over ids that are taken. Where it does not, they must have been looked up."""

    async def start(self) -> None:
        """Begin; does not wait for Chroma."""

    async def close(self) -> None:
        """Let go of Chroma."""

    async def status(self) -> StoreStatus:
        """Ask Chroma how it is."""

    async def max_batch_size(self) -> int:
        """Most records that Chroma takes in one write."""

    async def create_collection(self, name: str, metadata: CollectionMetadata, distance: Distance) -> Collection:
        """Create a collection; CollectionExists when the name is taken."""

    async def get_collection(self, name: str) -> Collection:
        """Look a collection up; CollectionNotFound when there is none."""

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections."""

    async def count_collections(self) -> int:
        """How many collections there are."""

    async def replace_metadata(self, collection_id: str, metadata: CollectionMetadata) -> None:
        """Replace a collection's metadata; it may be empty."""

    async def delete_collection(self, name: str) -> None:
        """Delete a collection; CollectionNotFound when there is none."""

    async def add(self, collection_id: str, records: RecordBatch, marks: list[str]) -> set[str]:
        """Write those records whose ids are free, in one transaction.

        Args:
            collection_id: the collection.
            records: n records.
            marks: n marks, the same for records of one add, which no other add uses. With them, adding twice is once.

        Returns:
            Ids of the records that are there now because this add wrote them.
        """

    async def marks(self, collection_id: str, ids: list[str]) -> dict[str, str | None]:
        """Which of some ids are taken, and the mark of the add that wrote them, where there is one."""

    async def withdraw(self, collection_id: str, ids: list[str], mark: str) -> None:
        """Delete those of some records that the add with this mark wrote."""

    async def upsert(self, collection_id: str, records: RecordBatch) -> None:
        """Write records in one transaction."""

    async def get(
        self,
        collection_id: str,
        *,
        ids: list[str] | None = None,
        where: ChromaFilter = None,
        where_document: ChromaFilter = None,
        limit: int | None = None,
        offset: int = 0,
        include: tuple[str, ...] = (),
    ) -> Records:
        """Read records in insertion order. `include` names columns: documents, metadatas, embeddings."""

    async def count(self, collection_id: str) -> int:
        """How many records a collection holds."""

    async def delete(self, collection_id: str, ids: list[str]) -> None:
        """Delete records; ids that do not exist are passed over."""

    async def query(
        self,
        collection_id: str,
        embeddings: Matrix,
        n_results: int,
        *,
        where: ChromaFilter = None,
        where_document: ChromaFilter = None,
        include: tuple[str, ...] = (),
    ) -> list[QueryResult]:
        """Find the nearest records for each row of a matrix. Distances are always included."""
