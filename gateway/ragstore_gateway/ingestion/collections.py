"""`Collections`: which collection of an engine has the chunks of a knowledge base."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.versioned_cache import VersionedCache
from ragstore_gateway.embeddings.embedder import Embedder
from ragstore_gateway.embeddings.embeddings import Embeddings
from ragstore_gateway.engines.assembly import Engines
from ragstore_gateway.engines.engine_collection import EngineCollection
from ragstore_gateway.engines.store_parameters import RagstoreParameters
from ragstore_gateway.errors import DimensionMismatch
from ragstore_gateway.ingestion.tables import CollectionRow
from ragstore_gateway.secrets.secret_references import REFERENCE
from ragstore_gateway.splitting.chunk import Chunking

ACTIVE: Final = "active"
BUILDING: Final = "building"

NO_ADDRESS: Final = ("baseUrl", None)
"""The parameter of a collection in the gateway's store."""

MAX_CACHED: Final = 10_000
"""Maximum number of bases whose active collection is remembered."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection, with the configuration that its chunks were made with.

    Attributes:
        id: its name in the engine.
        base_id: the knowledge base.
        state: `active` if searches use it, `building` if it does not have every document yet.
        provider: provider of its embeddings.
        embedding_parameters: the provider's parameters.
        store_type: its engine.
        store_parameters: the store's parameters.
        chunking: how its texts were split.
        dimension: the dimension of its vectors; None as long as it has none.
    """

    id: str
    base_id: str
    state: str
    provider: str
    embedding_parameters: Mapping[str, object]
    store_type: str
    store_parameters: Mapping[str, object]
    chunking: Chunking
    dimension: int | None

    @property
    def owner(self) -> str:
        """The value of `OWNER_KEY` in the chunks of a collection that also has records of others; empty for others."""
        return self.id if self.store_parameters.get("shared") else ""


class Collections:
    """The collections of all knowledge bases.

    Args:
        embeddings: makes embedders.
        engines: opens collections.
        prefix: the prefix of the names of collections.
    """

    def __init__(self, database: Database, embeddings: Embeddings, engines: Engines, prefix: str = "kb_") -> None:
        self._prefix = prefix
        self._database = database
        self._active: VersionedCache[str, Collection] = VersionedCache(database, MAX_CACHED)
        self._embeddings = embeddings
        self._engines = engines

    async def active(self, base_id: str) -> Collection | None:
        """The collection that searches of a knowledge base use. It may be older than the base's current version.

        Args:
            base_id: the knowledge base.

        Returns:
            The collection; None as long as nothing was ingested.
        """
        return (await self.active_of([base_id])).get(base_id)

    async def active_of(self, base_ids: Iterable[str]) -> dict[str, Collection]:
        """The collections that searches of several knowledge bases use, by base.

        Args:
            base_ids: the knowledge bases.
        """
        return await self._active.get(base_ids, self._read_active)

    async def _read_active(self, base_ids: Iterable[str]) -> dict[str, Collection]:
        query = sa.select(CollectionRow).where(CollectionRow.base_id.in_(list(base_ids)), CollectionRow.state == ACTIVE)
        async with self._database.reading() as session:
            return {row.base_id: collection_of(row) for row in await session.scalars(query)}

    def embedder(self, collection: Collection) -> Embedder:
        """The embedder of a collection's vectors.

        Raises:
            InvalidRequest: the parameters are not valid any more.
            ModelUnavailable: the model cannot be used.
        """
        return self._embeddings.of(collection.provider, collection.embedding_parameters)

    def open(self, collection: Collection) -> EngineCollection:
        """Open a collection that has a dimension."""
        return self._engines.open(
            collection.store_type, collection.store_parameters, collection.id, collection.dimension or 0
        )

    async def load(self, collection_ids: Iterable[str]) -> list[Collection]:
        """Look collections up by their names, in the order of the names.

        Args:
            collection_ids: the names. Collections that no longer exist are skipped.
        """
        ids = list(collection_ids)
        async with self._database.reading() as session:
            rows = await session.scalars(sa.select(CollectionRow).where(CollectionRow.id.in_(ids)))
            found = {row.id: collection_of(row) for row in rows}
        return [found[each] for each in ids if each in found]

    async def with_dimension(self, collection: Collection, dimension: int) -> Collection:
        """Fix the dimension of a collection by its first vector.

        Args:
            dimension: the dimension of a vector for it.

        Raises:
            DimensionMismatch: it has another dimension.
        """
        if collection.dimension is None:
            fix = (
                sa.update(CollectionRow)
                .where(CollectionRow.id == collection.id, CollectionRow.dimension.is_(None))
                .values(dimension=dimension)
            )
            async with self._database.session() as session:
                await session.execute(fix)
                query = sa.select(CollectionRow.dimension).where(CollectionRow.id == collection.id)
                fixed = await session.scalar(query) or dimension
            collection = replace(collection, dimension=fixed)
        if collection.dimension != dimension:
            raise DimensionMismatch(
                f"The embedding model returned vectors of dimension {dimension} instead of {collection.dimension}"
            )
        return collection

    def new_row(self, base_id: str, version: int, base: KnowledgeBase, state: str) -> CollectionRow:
        """A row for a new collection of a knowledge base.

        Args:
            base_id: the knowledge base.
            version: the version of its configuration.
            base: the configuration.
            state: `active` or `building`.
        """
        return CollectionRow(
            id=collection_name(base_id, self._prefix),
            base_id=base_id,
            base_version=version,
            state=state,
            fingerprint=self.fingerprint(base),
            provider=base.embedding_provider,
            embedding_parameters=base.embedding_parameters,
            store_type=base.store_type,
            store_parameters=base.engine_parameters,
            chunking=msgspec.to_builtins(base.chunking),
            dimension=None,
            created_on=datetime.now(UTC),
        )

    def fingerprint(self, base: KnowledgeBase) -> str:
        """A hash of the settings that determine the vectors of a base: provider, model, chunking, store; not secrets.

        For a base in an existing collection, only the collection counts: its model never changes, and a changed
        chunking applies to later documents.

        Args:
            base: the configuration.
        """
        if base.collection:
            return hashlib.sha256(msgspec.json.encode([base.store_type, base.collection])).hexdigest()
        embedding = self._embeddings.validate(base.embedding_provider, base.embedding_parameters)
        parts = [
            base.embedding_provider,
            _without_secrets(msgspec.to_builtins(embedding)),
            *self._place(base),
            _chunking(base.chunking),
        ]
        return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()

    def have_same_vectors(self, one: Collection, other: Collection) -> bool:
        """Whether the chunks of two collections, and their vectors, are the same: only their engines differ.

        Args:
            one: a collection.
            other: another collection of the base.

        Raises:
            InvalidRequest: the parameters of a provider are not valid any more.
        """
        return self._vectors(one) == self._vectors(other)

    def _vectors(self, collection: Collection) -> list[Any]:
        embedding = self._embeddings.validate(collection.provider, collection.embedding_parameters)
        parameters = _without_secrets(msgspec.to_builtins(embedding))
        return [collection.provider, parameters, collection.chunking]

    def _place(self, base: KnowledgeBase) -> tuple[str, Any]:
        """The engine of a base: its name, or its type and its parameters."""
        if base.engine:
            return "engine", base.engine
        store = self._engines.validate(base.store_type, base.store_parameters)
        parts = _without_secrets(msgspec.to_builtins(store))
        if isinstance(store, RagstoreParameters):
            # Collections that are older than these parameters have the hash without them.
            parts = {name: value for name, value in parts.items() if name != "apiKey" and (name, value) != NO_ADDRESS}
        return base.store_type, parts


def collection_name(base_id: str, prefix: str) -> str:
    """A new name for a collection of a knowledge base.

    Args:
        base_id: the knowledge base.
        prefix: the prefix of its name.
    """
    return f"{prefix}{base_id.replace('-', '')[:32]}_{uuid4().hex[:8]}"


def collection_of(row: CollectionRow) -> Collection:
    """The collection of a row."""
    return Collection(
        row.id,
        row.base_id,
        row.state,
        row.provider,
        row.embedding_parameters,
        row.store_type,
        row.store_parameters,
        msgspec.convert(row.chunking, Chunking),
        row.dimension,
    )


async def live_collections(session: AsyncSession, base_id: str) -> list[CollectionRow]:
    """The collections of a knowledge base, the active one first.

    Args:
        base_id: the knowledge base.
    """
    query = sa.select(CollectionRow).where(CollectionRow.base_id == base_id).order_by(CollectionRow.state)
    return list(await session.scalars(query))


def _chunking(chunking: Chunking) -> dict[str, Any]:
    """The parts of a chunking. Collections that are older than `with_headings` have the hash without it."""
    parts: dict[str, Any] = msgspec.to_builtins(chunking)
    if not chunking.with_headings:
        del parts["with_headings"]
    return parts


def _without_secrets(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters without references to secrets: a new key for the same model needs no new vectors."""
    return {
        name: value for name, value in parameters.items() if not (isinstance(value, str) and REFERENCE.fullmatch(value))
    }
