"""The `Store` protocol.

A store keeps collections of documents. It follows ragstore's contract, not Chroma's behaviour: an add of an existing id
is rejected, an upsert replaces the whole document, a delete returns the number of documents that it removed. The
modules above this one do not know Chroma.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ragstore.filters.values import Scalar
from ragstore.kit.errors import ServiceError
from ragstore.model.collections import DEFAULT_HNSW, Collection, CollectionCount, Distance, HnswParameters, StoreStatus
from ragstore.model.documents import EVERYTHING, Documents, Selection, StoredEmbeddings, Write
from ragstore.model.maps import CollectionMap, MapParameters
from ragstore.model.metadata import CollectionMetadata
from ragstore.model.metadata_updates import MetadataUpdates
from ragstore.model.queries import CollectionMatches, Query
from ragstore.model.rebuilds import Rebuild


class Store(Protocol):
    """Keeps collections of documents.

    Every call may raise `ChromaUnavailable`, `ChromaTimeout` or `ChromaFailed`; every call that takes a collection's
    name may raise `CollectionNotFound`. A failed write has happened as a whole or not at all.
    """

    async def start(self) -> None:
        """Start, without waiting for Chroma."""

    async def close(self) -> None:
        """Wait for the requests in progress and close the connection to Chroma."""

    async def status(self, *, with_count: bool = True) -> StoreStatus:
        """Check Chroma's health, and count its collections if `with_count`."""

    async def max_batch_size(self) -> int:
        """The maximum number of documents in one write: the service's limit or Chroma's, whichever is lower."""

    async def create_collection(
        self, name: str, metadata: CollectionMetadata, distance: Distance, hnsw: HnswParameters = DEFAULT_HNSW
    ) -> Collection:
        """Create a collection.

        Raises:
            CollectionExists: there is a collection of this name.
        """

    async def get_collection(self, name: str) -> Collection:
        """Get a collection."""

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections by name; all of them if `limit` is None."""

    async def count_collections(self) -> int:
        """The number of collections."""

    async def count_each(self, collections: Sequence[Collection], max_seconds: float) -> list[CollectionCount]:
        """Count the documents of collections, in their order, until the time is over.

        Returns:
            An exact number for each collection, or why there is none.
        """

    async def update_metadata(self, name: str, metadata: dict[str, Scalar | None], *, merge: bool) -> Collection:
        """Replace a collection's metadata, or merge into it as in RFC 7396: null removes a key.

        Returns:
            The collection afterwards. Its distance never changes.

        Raises:
            InvalidMetadata: its `hnsw:space` is another distance.
        """

    async def delete_collection(self, name: str) -> None:
        """Delete a collection and its documents."""

    async def start_rebuild(self, name: str, hnsw: HnswParameters, sample: int) -> Rebuild:
        """Begin to rebuild a collection's index in the background, while the collection is read and written.

        Args:
            name: the collection's name.
            hnsw: parameters of the new index; a None leaves the parameter as it is.
            sample: number of documents that are looked for in the old index and in the new one.

        Returns:
            The state, which changes.

        Raises:
            RebuildRunning: the index is being rebuilt.
            RebuildUnsupported: Chroma is a server.
        """

    async def get_rebuild(self, name: str) -> Rebuild:
        """Get the state of the latest rebuild of a collection's index since the store was created.

        Raises:
            RebuildNotFound: there was none.
        """

    async def write(self, name: str, writes: Sequence[Write]) -> list[ServiceError | None]:
        """Write several batches, as if one after the other. A batch that fails does not affect the others.

        Returns:
            An outcome for each: the error that writing it alone would raise, or None.
        """

    async def update_documents(self, name: str, updates: Sequence[MetadataUpdates]) -> list[ServiceError | None]:
        """Change metadata of documents several times, as if one after the other.

        An update that names a document that does not exist changes nothing, and does not affect the others.

        Returns:
            An outcome for each, as of `write`.
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

    async def get_ids(self, name: str, selection: Selection, *, limit: int | None = None, offset: int = 0) -> list[str]:
        """Read the ids of the selected documents, in insertion order."""

    async def get_embeddings(self, name: str, ids: list[str]) -> StoredEmbeddings:
        """Read the embeddings of documents by their ids. Ids without a document are skipped."""

    async def get_metadata_values(self, name: str, key: str) -> set[str]:
        """Get the distinct values of a metadata key as JSON, items of lists separate.

        It reads all metadata in steps. A call that is cancelled is continued by the next one, unless documents were
        written or deleted through this store in the meantime.
        """

    async def count(self, name: str, selection: Selection = EVERYTHING) -> int:
        """The exact number of selected documents."""

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents, in steps of `max_batch_size`. If one fails, the earlier ones are done.

        Returns:
            The number of documents that were deleted.
        """

    async def query(self, name: str, queries: Sequence[Query]) -> CollectionMatches:
        """Find the nearest documents of each query.

        Args:
            name: the collection's name.
            queries: at least one query.

        Returns:
            The collection, and the hits of each query.

        Raises:
            DimensionMismatch: the collection's embeddings have another dimension.
        """

    async def query_exact(
        self, name: str, queries: Sequence[Query], max_matches: int, ids: list[str] | None = None
    ) -> CollectionMatches | None:
        """Find the nearest documents of each query by comparison with every match, if few documents match.

        Args:
            name: the collection's name.
            queries: at least one query; all have the same filter, and want the same columns.
            max_matches: maximum number of matches, if their ids are not known.
            ids: ids of all matches, as `get_ids` returned them; None if they are not known.

        Returns:
            As `query`; None if more documents match.

        Raises:
            DimensionMismatch: the collection's embeddings have another dimension.
        """

    async def map_collection(self, name: str, parameters: MapParameters) -> CollectionMap:
        """Make a map of a sample of the documents.

        Raises:
            Overloaded: another map is being made, or there is no room for the embeddings.
        """
