"""The `Store` protocol and the types that pass through it.

A store keeps collections of documents. What it promises is ragstore's contract, not Chroma's habits: an add of an id
that is taken is refused, an upsert replaces a document whole, a delete tells how many documents it removed.
Everything above this module speaks these types and knows no Chroma.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ragstore.kit.errors import ServiceError
from ragstore.model.collections import Collection, Distance, StoreStatus
from ragstore.model.documents import EVERYTHING, Documents, Selection, Write
from ragstore.model.metadata import CollectionMetadata, Metadata, Scalar
from ragstore.model.queries import Found, Query


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

    async def write(self, name: str, writes: Sequence[Write]) -> list[ServiceError | None]:
        """Write several batches, as if one after the other. None of them hurts another.

        Returns:
            An outcome for each: the error that `add` or `upsert` of it alone would raise, or None.
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


async def write_batch(store: Store, name: str, write: Write) -> None:
    """Write one batch.

    Args:
        store: where the collection is.
        name: its name.
        write: what to write.

    Raises:
        ServiceError: whatever its outcome is.
    """
    (outcome,) = await store.write(name, [write])
    if outcome is not None:
        raise outcome
