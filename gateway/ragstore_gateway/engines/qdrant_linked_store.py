"""`LinkedQdrantStore`: a collection of Qdrant that others fill, such as the memory of source services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import structs
from qdrant_client.models import ExtendedPointId, ScoredPoint, VectorParams
from qdrant_client.models import Record as QdrantRecord

from ragstore.filters import where as language
from ragstore_client import Where
from ragstore_gateway.engines.engine_collection import Passage, Vector
from ragstore_gateway.engines.failures import empty_if_missing
from ragstore_gateway.engines.linked_collection import CollectionInfo, ReadOnlyCollection, linked_passage, scalars
from ragstore_gateway.engines.qdrant_store import TEXT, QdrantConnection, QdrantStore
from ragstore_gateway.engines.ranking import MAX_FETCHED, cosine_relevance, search_ranked
from ragstore_gateway.engines.shared_client import SharedClient
from ragstore_gateway.engines.store_parameters import QdrantParameters
from ragstore_gateway.engines.vectors import unit_vector

MAX_FILTERED: Final = MAX_FETCHED
"""Number of nearest points among which a filter chooses: payloads of others have no index of the gateway."""


class LinkedQdrantStore(ReadOnlyCollection, QdrantStore):
    """A collection that others fill. See `LinkedCollection`.

    Its payloads are flat. A filter is applied to the nearest points, since their keys may have no index.

    Args:
        client: the connection.
        parameters: the collection, and the names of its fields.
        timeout_seconds: time limit of one call.
    """

    def __init__(
        self,
        client: SharedClient[QdrantConnection],
        parameters: QdrantParameters,
        dimension: int,
        timeout_seconds: float,
    ) -> None:
        super().__init__(client, parameters, parameters.collection or "", dimension, timeout_seconds)
        self._name = parameters.collection or ""
        self._text_field = parameters.text_field or TEXT
        # A passage has its text already.
        self._fields = structs.replace(parameters, text_field="")

    async def describe(self) -> CollectionInfo | None:
        """Describe the collection."""
        async with empty_if_missing():
            async with self._connection() as connection:
                stored = (await connection.client.get_collection(self._name)).config.params.vectors
            return CollectionInfo(stored.size if isinstance(stored, VectorParams) else None)
        return None

    async def search(
        self, vector: Vector, limit: int, *, min_relevance: float = 0.0, where: Where | None = None
    ) -> list[Passage]:
        """Find the nearest records."""
        chosen = language.parse(where)
        query = unit_vector(vector, self._dimension)

        async def fetch(count: int) -> list[Passage]:
            fetched = count if chosen is None else MAX_FILTERED
            found = await client.query_points(self._name, query.tolist(), limit=fetched, with_vectors=True)
            passages = (self._passage(point, query) for point in found.points)
            return [passage for passage in passages if language.matches(chosen, passage.metadata)]

        async with empty_if_missing(), self._connection() as connection:
            client = connection.client
            return await search_ranked(fetch, limit, min_relevance)
        return []

    async def compare(self, vector: Vector, ids: Sequence[str]) -> list[Passage]:
        """Compare records with a vector."""
        query = unit_vector(vector, self._dimension)
        if not ids:
            return []
        async with empty_if_missing(), self._connection() as connection:
            # Ids of points are UUIDs or numbers.
            points: list[ExtendedPointId] = [int(id) if id.isdecimal() else id for id in ids]
            found = await connection.client.retrieve(self._name, points, with_vectors=True)
            return [self._passage(record, query) for record in found]
        return []

    def _passage(self, point: ScoredPoint | QdrantRecord, query: Vector) -> Passage:
        payload = point.payload or {}
        stored = point.vector
        vector = unit_vector(np.asarray(stored if isinstance(stored, list) else [], np.float32), self._dimension)
        metadata = scalars({key: value for key, value in payload.items() if key != self._text_field})
        text = str(payload.get(self._text_field, ""))
        passage = Passage(str(point.id), text, cosine_relevance(query, vector), metadata, vector=vector)
        return linked_passage(passage, self._fields)
