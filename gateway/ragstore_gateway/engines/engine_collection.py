"""`EngineCollection`: where the chunks of a knowledge base are, whatever engine is behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ragstore_client import Where

MetadataValue: TypeAlias = str | int | float | bool
Vector: TypeAlias = NDArray[np.float32]

DOCUMENT_KEY = "document_id"
"""Metadata key of the document that a chunk belongs to. Every record has it."""

REVISION_KEY = "revision"
"""Metadata key of the ingestion that wrote a chunk. Every record has it."""


DOCUMENT_NAME_KEY = "document_name"
"""Metadata key of the name of the document that a chunk belongs to."""

OWNER_KEY = "gateway_collection"
"""Metadata key of the chunks of a base in a collection that also has records of others."""


@dataclass(frozen=True, slots=True)
class Record:
    """A chunk to be stored.

    Attributes:
        id: its id, unique in the collection; a UUID, because some engines accept nothing else.
        vector: its embedding, of the collection's dimension; scaled to length 1, or zeros.
        metadata: flat metadata. It contains `document_id` and `revision`.
    """

    id: str
    text: str
    vector: Vector
    metadata: Mapping[str, MetadataValue]


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk that a search found, from the engine to the prompt.

    Attributes:
        relevance: (1 + cosine) / 2, from 0 to 1, in every engine.
        rank: its place among the passages of several knowledge bases, which may have different models: a higher one is
            better. An engine leaves it at 0.
        vector: its embedding, of length 1 or zeros, where the engine has returned it.
        base: name of its knowledge base, once it is known.
    """

    id: str
    text: str
    relevance: float
    metadata: Mapping[str, MetadataValue]
    rank: float = 0.0
    vector: Vector | None = field(default=None, compare=False, repr=False)
    base: str = field(default="", compare=False)

    @property
    def place(self) -> tuple[float, float, str]:
        """The key by which passages are sorted, the best one first."""
        return -self.rank, -self.relevance, self.id

    @property
    def cosine(self) -> float:
        """Its cosine similarity to the question, -1 to 1."""
        return 2 * self.relevance - 1


class EngineCollection(Protocol):
    """One collection of chunks of one dimension.

    Every method raises a `ServiceError` if the engine fails: `StoreUnavailable` if it does not respond or responds with
    an error, within the time limit of the store; `SecretUnavailable` if a secret of its parameters cannot be read. A
    collection that does not exist is empty: only `write` fails, with `CollectionMissing`.
    """

    async def create(self) -> None:
        """Create the collection, if it does not exist.

        Raises:
            DimensionMismatch: it exists with another dimension.
        """

    async def write(self, records: Sequence[Record]) -> None:
        """Store records. A record replaces the record with its id. When this returns, searches find them.

        Args:
            records: the records. None or all of them are stored if they are at most `MAX_BATCH`.

        Raises:
            DimensionMismatch: a vector has another dimension; nothing is stored.
        """

    async def search(
        self, vector: Vector, limit: int, *, min_relevance: float = 0.0, where: Where | None = None
    ) -> list[Passage]:
        """Find the records nearest to a vector.

        Args:
            vector: the vector of the question.
            limit: maximum number of passages; more than `MAX_PASSAGES` count as `MAX_PASSAGES`.
            min_relevance: minimum relevance.
            where: filter by metadata, in the `where` language of ragstore.

        Returns:
            The passages by descending relevance, then by ascending id. A relevance has six decimals.

        Raises:
            DimensionMismatch: the vector has another dimension.
            InvalidRequest: the filter is not one of the language.
        """

    async def compare(self, vector: Vector, ids: Sequence[str]) -> list[Passage]:
        """Compare records with a vector.

        Args:
            vector: the vector of the question.
            ids: at most `MAX_PASSAGES` different ids. An id without a record is skipped.

        Returns:
            The records as passages, in any order, with their vectors where the engine returns them. Without vectors, a
            base that gets another engine is embedded again.

        Raises:
            DimensionMismatch: the vector has another dimension.
        """

    async def delete(self, where: Where) -> int:
        """Delete the records that match a filter.

        Args:
            where: the filter.

        Returns:
            The number of records deleted.

        Raises:
            InvalidRequest: the filter is not one of the language, or selects everything.
        """

    async def delete_ids(self, ids: Sequence[str]) -> None:
        """Delete records by their ids. An id without a record is skipped.

        Args:
            ids: at most `MAX_PASSAGES` ids, as `search` returned them.
        """

    async def count(self, where: Where | None = None) -> int:
        """The number of records, or of the records that match a filter.

        Args:
            where: the filter.
        """

    async def drop(self) -> None:
        """Remove the collection, if it exists."""


MAX_BATCH = 256
"""Maximum number of records of one `write` that are stored as a whole."""

MAX_PASSAGES = 1000
"""Maximum number of passages of one `search`."""
