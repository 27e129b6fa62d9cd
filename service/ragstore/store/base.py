"""The `Store` protocol and the types that pass through it.

A store keeps collections of documents. What it promises is ragstore's contract, not Chroma's habits: an add of an id
that is taken is refused, an upsert replaces a document whole, a delete tells how many documents it removed.
Everything above this module speaks these types and knows no Chroma.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias
from uuid import uuid4

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragstore.errors import RagstoreError
from ragstore.filters.condition import NO_CONDITION, Condition
from ragstore.metadata import CollectionMetadata, Metadata, Scalar

Distance: TypeAlias = Literal["cosine", "l2", "ip"]
DISTANCES: Final[dict[object, Distance]] = {"cosine": "cosine", "l2": "l2", "ip": "ip"}
SPACE: Final = "hnsw:space"
"""The metadata key that older Chroma clients choose the distance with."""
Matrix: TypeAlias = NDArray[np.float32]
Vector: TypeAlias = NDArray[np.float32]


class Collection(msgspec.Struct, frozen=True):
    """A collection as it stands.

    Attributes:
        id: Chroma's id of it; another one after it was deleted and created again.
        name: its name.
        metadata: its metadata.
        dimension: of its embeddings; None until the first document came.
        distance: how embeddings are compared; never changes.
    """

    id: str
    name: str
    metadata: CollectionMetadata
    dimension: int | None
    distance: Distance


@dataclass(frozen=True, slots=True)
class Batch:
    """Documents to write, by columns.

    Attributes:
        ids: n ids, no two alike.
        texts: n texts.
        metadatas: n metadatas; an empty one is allowed.
        embeddings: matrix of shape (n, dimension), float32, finite.
    """

    ids: list[str]
    texts: list[str]
    metadatas: list[Metadata]
    embeddings: Matrix

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def dimension(self) -> int:
        """Numbers in each embedding."""
        return int(self.embeddings.shape[1])


@dataclass(frozen=True, slots=True)
class Write:
    """A batch and what to do with it.

    Attributes:
        kind: `add`: no id may be taken; `upsert`: documents whose ids are taken are replaced whole.
        batch: the documents.
        mark: tells this write from all others, so that an add that is tried again knows what it wrote before.
    """

    kind: Literal["add", "upsert"]
    batch: Batch
    mark: str = field(default_factory=lambda: f"ragstore:{uuid4().hex}")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which documents are meant. Everything that is set must hold.

    Attributes:
        ids: only these ids.
        condition: only documents that meet this.
    """

    ids: tuple[str, ...] | None = None
    condition: Condition = NO_CONDITION

    @property
    def is_everything(self) -> bool:
        """Whether nothing is set."""
        return self.ids is None and self.condition.is_none


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents that were read, by columns, in insertion order.

    Attributes:
        ids: n ids.
        texts: n texts.
        metadatas: n metadatas.
        embeddings: matrix of shape (n, dimension), or None when not asked for.
    """

    ids: list[str]
    texts: list[str]
    metadatas: list[Metadata]
    embeddings: Matrix | None


@dataclass(frozen=True, slots=True)
class Query:
    """A question.

    Attributes:
        embedding: vector of the collection's dimension.
        top_k: most results wanted, 1 or more.
        condition: only documents that meet this.
        with_embeddings: whether results carry their embeddings.
    """

    embedding: Vector
    top_k: int
    condition: Condition = NO_CONDITION
    with_embeddings: bool = False


@dataclass(frozen=True, slots=True)
class Hits:
    """Answers to one query, by columns, nearest first.

    Attributes:
        ids: n ids.
        texts: n texts.
        metadatas: n metadatas.
        distances: n finite distances.
        embeddings: matrix of shape (n, dimension), or None when not asked for.
    """

    ids: list[str]
    texts: list[str]
    metadatas: list[Metadata]
    distances: list[float]
    embeddings: Matrix | None


@dataclass(frozen=True, slots=True)
class Found:
    """What queries on a collection found.

    Attributes:
        collection: the collection as it was known when it was asked.
        hits: hits, one for each query.
    """

    collection: Collection
    hits: list[Hits]


class StoreStatus(msgspec.Struct, frozen=True):
    """What a store says of itself.

    Attributes:
        kind: `embedded` or `remote`.
        chroma_version: version of the Chroma that answered.
        collections_count: collections it holds.
        storage_bytes: bytes on disk, where the store can see them.
    """

    kind: str
    chroma_version: str
    collections_count: int
    storage_bytes: int | None = None


class Store(Protocol):
    """Keeps collections of documents.

    Every call may raise `ChromaUnavailable`, `ChromaTimeout` or `ChromaFailed`; every call that takes a collection's
    name may raise `CollectionNotFound`. What a failed write leaves is all of it or nothing.
    """

    async def start(self) -> None:
        """Begin; does not wait for Chroma."""

    async def close(self) -> None:
        """Finish what is under way and let go of Chroma."""

    async def status(self) -> StoreStatus:
        """Ask Chroma how it is."""

    async def create_collection(self, name: str, metadata: CollectionMetadata, distance: Distance) -> Collection:
        """Create a collection.

        Raises:
            CollectionExists: the name is taken.
        """

    async def get_collection(self, name: str) -> Collection:
        """Look a collection up."""

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections by name, all when `limit` is None."""

    async def count_collections(self) -> int:
        """How many collections there are."""

    async def update_metadata(self, name: str, metadata: dict[str, Scalar | None], *, merge: bool) -> Collection:
        """Replace a collection's metadata, or merge into it as RFC 7396 says: null removes a key.

        Returns:
            The collection afterwards. Its distance is what it was.

        Raises:
            InvalidMetadata: `hnsw:space` in it names another distance.
        """

    async def delete_collection(self, name: str) -> None:
        """Delete a collection and its documents."""

    async def write(self, name: str, writes: Sequence[Write]) -> list[RagstoreError | None]:
        """Write several batches, as if one after the other. None of them hurts another.

        Returns:
            An outcome for each: the error that `add` or `upsert` of it alone would raise, or None.
        """

    async def add(self, name: str, batch: Batch) -> None:
        """Add documents.

        Raises:
            InvalidDocuments: more than fit in one write.
            DocumentsExist: some ids are taken; nothing was written.
            DimensionMismatch: the collection's embeddings have another dimension.
        """

    async def upsert(self, name: str, batch: Batch) -> None:
        """Add documents, or replace whole those whose ids are taken.

        Raises:
            InvalidDocuments: more than fit in one write.
            DimensionMismatch: the collection's embeddings have another dimension.
        """

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

    async def get_ids(self, name: str, selection: Selection) -> list[str]:
        """Read the ids of all documents that are meant, in insertion order."""

    async def get_metadatas(self, name: str, selection: Selection, *, limit: int, offset: int) -> list[Metadata]:
        """Read documents' metadata alone, in insertion order."""

    async def count(self, name: str, selection: Selection = EVERYTHING) -> int:
        """How many documents are meant, exactly."""

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents.

        Returns:
            How many were there and are no more.
        """

    async def query(self, name: str, queries: Sequence[Query]) -> Found:
        """Find the nearest documents, for each query by itself.

        Args:
            name: the collection.
            queries: one or more.

        Returns:
            The collection, and hits for each query.

        Raises:
            DimensionMismatch: the collection's embeddings have another dimension.
        """
