"""Collections of a store, or of Chroma, that others fill: `LinkedStore` searches one, `SharedStore` also writes it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from ragstore.filters import where as language
from ragstore_client import Where
from ragstore_gateway.engines.engine_collection import (
    DOCUMENT_NAME_KEY,
    MAX_PASSAGES,
    OWNER_KEY,
    MetadataValue,
    Passage,
    Record,
    Vector,
)
from ragstore_gateway.engines.failures import empty_if_missing
from ragstore_gateway.engines.linked_collection import CollectionInfo, ReadOnlyCollection, linked_passage
from ragstore_gateway.engines.ragstore_store import DIMENSION_KEY, INDEX, ClientUse, RagstoreStore, compared
from ragstore_gateway.engines.ranking import search_ranked
from ragstore_gateway.engines.store_parameters import LinkableParameters
from ragstore_gateway.engines.vectors import unit_vector

MODEL_KEY: Final = "embedding_model"
"""Key of the model in a collection's metadata (source: the store's contract)."""


class LinkedStore(ReadOnlyCollection, RagstoreStore):
    """A collection that others fill. See `LinkedCollection`.

    Its distance function may be any, and its vectors of any length: the relevance is computed from the vectors.

    Args:
        client: lends a client of the store.
        parameters: the collection, and the names of its fields.
        timeout_seconds: time limit of one call.
        store_type: name of the store in errors.
    """

    def __init__(
        self,
        client: ClientUse,
        parameters: LinkableParameters,
        dimension: int,
        timeout_seconds: float,
        store_type: str = "ragstore",
    ) -> None:
        super().__init__(client, parameters.collection or "", dimension, timeout_seconds, store_type)
        self._parameters = parameters

    async def describe(self) -> CollectionInfo | None:
        """Describe the collection."""
        async with empty_if_missing():
            async with self._calls() as client:
                found = await client.get_collection(self._name)
            dimension = found.dimension or found.metadata.get(DIMENSION_KEY)
            model = found.metadata.get(MODEL_KEY)
            return CollectionInfo(
                dimension if isinstance(dimension, int) else None, model if isinstance(model, str) else ""
            )
        return None

    async def search(
        self, vector: Vector, limit: int, *, min_relevance: float = 0.0, where: Where | None = None
    ) -> list[Passage]:
        """Find the nearest records."""
        language.parse(where)
        query = unit_vector(vector, self._dimension)

        async def fetch(count: int) -> list[Passage]:
            found = await client.query(self._name, query, top_k=count, where=where, include_embeddings=True)
            return compared(query, found.results)

        async with empty_if_missing(), self._calls() as client:
            found = await search_ranked(fetch, limit, min_relevance, MAX_PASSAGES)
            return [linked_passage(passage, self._parameters) for passage in found]
        return []

    async def compare(self, vector: Vector, ids: Sequence[str]) -> list[Passage]:
        """Compare records with a vector."""
        return [linked_passage(passage, self._parameters) for passage in await super().compare(vector, ids)]


class SharedStore(LinkedStore):
    """A collection that has the chunks of a base beside records of others.

    Each chunk has the payload of a memory (source: the retrieval flow of a local assistant): `url`, `chunk_ix`, `ts`
    and `source`.

    Args:
        client: lends a client of the store.
        parameters: the collection, and the names of its fields.
        owner: stored with each chunk of the base.
        timeout_seconds: time limit of one call.
    """

    def __init__(
        self,
        client: ClientUse,
        parameters: LinkableParameters,
        owner: str,
        dimension: int,
        timeout_seconds: float,
    ) -> None:
        super().__init__(client, parameters, dimension, timeout_seconds)
        self._owner = owner

    async def found(self, model: str) -> None:
        """Create the collection, if it does not exist, with a record of its model.

        Args:
            model: the model of its vectors.
        """
        async with self._calls() as client:
            await client.create_collection(
                self._name, distance="cosine", hnsw=INDEX, embedding_model=model, if_exists="use"
            )

    async def create(self) -> None:
        """Do nothing: the collection was created with the record of its model, or by others."""

    async def write(self, records: Sequence[Record]) -> None:
        """Store chunks of the base."""
        owned = [
            Record(each.id, each.text, each.vector, {**_payload(each), **each.metadata, OWNER_KEY: self._owner})
            for each in records
        ]
        await RagstoreStore.write(self, owned)

    async def delete(self, where: Where) -> int:
        """Delete the chunks of the base that a filter selects."""
        return await RagstoreStore.delete(self, {"$and": [where, {OWNER_KEY: self._owner}]})

    async def delete_ids(self, ids: Sequence[str]) -> None:
        """Delete chunks of the base by their ids."""
        await RagstoreStore.delete_ids(self, ids)

    async def delete_replaced(self, url: str) -> int:
        """Delete the records of others that a document of the base replaces.

        Args:
            url: the URL of the records, which is the name of the document.
        """
        return await RagstoreStore.delete(self, {"$and": [{"url": url}, {OWNER_KEY: {"$ne": self._owner}}]})

    async def drop(self) -> None:
        """Delete the chunks of the base."""
        await RagstoreStore.delete(self, {OWNER_KEY: self._owner})


def _payload(record: Record) -> dict[str, MetadataValue]:
    name = str(record.metadata.get(DOCUMENT_NAME_KEY, ""))
    payload: dict[str, MetadataValue] = {"url": name, "source": name.rstrip("/").rpartition("/")[2] or name}
    index = record.metadata.get("chunk_index")
    if index is not None:
        payload["chunk_ix"] = index
    ingested_at = record.metadata.get("ingested_at")
    if isinstance(ingested_at, str):
        payload["ts"] = int(datetime.fromisoformat(ingested_at).timestamp())
    return payload
