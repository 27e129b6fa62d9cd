"""`Stores`: the knowledge bases as vector stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore.kit.auth.name_patterns import ALL_NAMES, NamePatterns
from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.api.bodies import decode_configuration
from ragstore_gateway.configurations.configuration import AlsoWrite, Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.name_characters import check_characters
from ragstore_gateway.configurations.tables import ConfigurationRow, ConfigurationVersionRow
from ragstore_gateway.configurations.validate import Validator
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import ConfigurationNotFound, NameTaken
from ragstore_gateway.ingestion.tables import DocumentRow, IngestionRow
from ragstore_gateway.ingestion.transactions import CANCELLED, FAILED, UNFINISHED
from ragstore_gateway.openai_vector_stores.pages import PageQuery, Position
from ragstore_gateway.openai_vector_stores.properties import (
    expires_on,
    expiring,
    put_properties,
    shown_name,
    suffixed,
)
from ragstore_gateway.openai_vector_stores.schemas import (
    ExpiresAfter,
    FileCounts,
    NewVectorStore,
    OtherStrategy,
    RequestedStrategy,
    State,
    StaticChunking,
    StaticStrategy,
    StoredStrategy,
    VectorStoreObject,
    VectorStoreUpdate,
)
from ragstore_gateway.openai_vector_stores.tables import VectorStoreRow

KIND: Final = "rags"
DEFAULT_CHUNKING: Final = StaticChunking(max_chunk_size_tokens=800, chunk_overlap_tokens=400)
"""OpenAI's default, for a new vector store that names no chunking."""


@dataclass
class _Usage:
    """The contents of a vector store, in numbers."""

    counts: dict[State, int] = field(default_factory=dict)
    bytes: int = 0

    @property
    def file_counts(self) -> FileCounts:
        """The numbers of files."""
        return counts_of(self.counts)


class Stores:
    """The knowledge bases as vector stores.

    Args:
        bases: the knowledge bases.
        validator: checks a knowledge base before it is stored.
    """

    def __init__(
        self, database: Database, bases: Configurations[KnowledgeBase], validator: Validator[KnowledgeBase]
    ) -> None:
        self._database = database
        self._bases = bases
        self._validator = validator

    async def create(
        self,
        body: NewVectorStore,
        created_by: str,
        attach: AlsoWrite[KnowledgeBase] | None = None,
        visible: NamePatterns = ALL_NAMES,
        tenant: str = "",
    ) -> Configuration[KnowledgeBase]:
        """Create a knowledge base, with one transaction.

        Args:
            body: the vector store.
            created_by: name of the key that creates it.
            attach: attaches its files, in the transaction.
            visible: the names that the key may use.
            tenant: the tenant that it belongs to; empty for none.

        Returns:
            The knowledge base.

        Raises:
            Forbidden: the key may not use the name.
            InvalidRequest: the vector store is not possible.
        """
        base = decode_configuration(KnowledgeBase, msgspec.json.encode(_fields(body)))
        await self._validator.validate(base)

        async def create(base: KnowledgeBase, values: Mapping[str, Any]) -> Configuration[KnowledgeBase]:
            self._bases.check_name(base.name, visible)
            own = dict(values)
            if body.metadata:
                own["pairs"] = dict(body.metadata)
            if body.expires_after is not None:
                own |= expiring(body.expires_after)

            async def also(session: AsyncSession, stored: Configuration[KnowledgeBase], /) -> None:
                if own:
                    await put_properties(session, stored.id, own)
                if attach is not None:
                    await attach(session, stored)

            return await self._bases.create(base, created_by, also, tenant=tenant)

        try:
            return await create(base, {})
        except NameTaken:
            return await create(msgspec.structs.replace(base, name=suffixed(base.name)), {"name": base.name})

    async def update(
        self, base_id: str, body: VectorStoreUpdate, changed_by: str, visible: NamePatterns = ALL_NAMES
    ) -> None:
        """Change the name, the pairs or the expiry of a vector store.

        Args:
            body: the changes.
            changed_by: name of the key that changes it.
            visible: the names that the key may use.

        Raises:
            ConfigurationNotFound: there is none.
            Forbidden: the key may not use the name.
            InvalidRequest: the name is not possible.
            VersionConflict: another change was made meanwhile.
        """
        found = await self._bases.read(base_id)
        values: dict[str, Any] = {}
        if body.metadata is not None:
            values["pairs"] = dict(body.metadata)
        if body.expires_after is not msgspec.UNSET:
            values |= expiring(body.expires_after)
        if body.name is None or body.name in (found.body.name, await self._given_name(base_id, found.body.name)):
            if values:
                async with self._database.session() as session:
                    await put_properties(session, base_id, values)
            return

        async def rename(name: str, given: str | None) -> None:
            check_characters(name, "$.name")
            self._bases.check_name(name, visible)
            fields = {**msgspec.to_builtins(found.body), "name": name}
            base = decode_configuration(KnowledgeBase, msgspec.json.encode(fields))

            async def also(session: AsyncSession, _: object, /) -> None:
                await put_properties(session, base_id, {**values, "name": given})

            await self._bases.update(base_id, found.version, base, changed_by, also)

        try:
            await rename(body.name, None)
        except NameTaken:
            await rename(suffixed(body.name), body.name)

    async def _given_name(self, base_id: str, base_name: str) -> str:
        async with self._database.reading() as session:
            row = await session.get(VectorStoreRow, base_id)
        return shown_name(base_name, row)

    async def read(self, base_id: str) -> VectorStoreObject:
        """A vector store.

        Raises:
            ConfigurationNotFound: there is none.
        """
        await self._bases.read(base_id)
        found = await self._objects(_select().where(ConfigurationRow.id == base_id))
        if not found:
            raise ConfigurationNotFound(f"There is no knowledge base {base_id}")
        return found[0]

    async def page(self, page: PageQuery, visible: NamePatterns = ALL_NAMES) -> tuple[list[VectorStoreObject], bool]:
        """A page of the vector stores.

        Args:
            visible: names of the knowledge bases that exist for the caller.

        Returns:
            The vector stores, and whether there are more.

        Raises:
            ConfigurationNotFound: a cursor is no vector store.
        """
        after, before = await self._position(page.after, visible), await self._position(page.before, visible)
        query = _select()
        if not visible.matches_all:
            query = query.where(ConfigurationRow.id.in_(await self._bases.visible_ids(visible)))
        query = page.apply(query, (ConfigurationRow.created_on, ConfigurationRow.id), after, before)
        return page.cut(await self._objects(query))

    async def _position(self, base_id: str, visible: NamePatterns) -> Position | None:
        if not base_id:
            return None
        found = await self._bases.read(base_id)
        if not visible.matches(found.body.name):
            raise ConfigurationNotFound(f"There is no knowledge base {base_id}")
        return found.created_on, found.id

    async def _objects(
        self, query: sa.Select[ConfigurationRow, dict[str, Any], VectorStoreRow | None]
    ) -> list[VectorStoreObject]:
        async with self._database.reading() as session:
            rows = [tuple(row) for row in await session.execute(query)]
        usage = await self._usage([row[0].id for row in rows])
        return [_object(row, version, own, usage.get(row.id, _Usage())) for row, version, own in rows]

    async def _usage(self, base_ids: Sequence[str]) -> Mapping[str, _Usage]:
        """The contents of several vector stores.

        All documents are counted by an index, and then documents that are not completed: the state of each document
        would have to be looked up.
        """
        total = (
            sa.select(DocumentRow.base_id, sa.func.count(), sa.func.sum(DocumentRow.bytes))
            .where(DocumentRow.base_id.in_(base_ids))
            .group_by(DocumentRow.base_id)
        )
        others = (
            sa.select(IngestionRow.base_id, IngestionRow.state, sa.func.count())
            .join(DocumentRow, DocumentRow.last_ingestion == IngestionRow.id)
            .where(IngestionRow.base_id.in_(base_ids), IngestionRow.state.in_((*UNFINISHED, FAILED, CANCELLED)))
            .group_by(IngestionRow.base_id, IngestionRow.state)
        )
        found: dict[str, _Usage] = {}
        async with self._database.reading() as session:
            for base_id, count, size in await session.execute(total):
                found[base_id] = _Usage({"completed": count}, int(size or 0))
            for base_id, state, count in await session.execute(others):
                counts = found.setdefault(base_id, _Usage()).counts
                name = state_of(state)
                counts[name] = counts.get(name, 0) + count
                # A document may have been accepted between the two statements.
                counts["completed"] = max(0, counts.get("completed", 0) - count)
        return found


def state_of(state: str | None) -> State:
    """The state of a file.

    Args:
        state: the state of its last ingestion; None if that is not known any more.
    """
    if state in UNFINISHED:
        return "in_progress"
    if state == FAILED:
        return "failed"
    return "cancelled" if state == CANCELLED else "completed"


def counts_of(counts: Mapping[State, int]) -> FileCounts:
    """Numbers of files.

    Args:
        counts: the numbers by state.
    """
    numbers = {str(state): count for state, count in counts.items()}
    return FileCounts(**numbers, total=sum(numbers.values()))


def strategy_of(base: KnowledgeBase) -> StoredStrategy:
    """The chunking of a knowledge base.

    Args:
        base: the knowledge base.
    """
    if base.chunk_unit != "tokens" or not 100 <= base.chunk_size <= 4096 or 2 * base.chunk_overlap > base.chunk_size:
        return OtherStrategy()
    return StaticStrategy(StaticChunking(base.chunk_size, base.chunk_overlap))


def check_strategy(base: KnowledgeBase, requested: RequestedStrategy | None, path: str) -> None:
    """Check that a file may be split as requested: all files of a vector store are split in the same way.

    Args:
        base: the knowledge base.
        requested: the chunking.
        path: its JSON path, for the error.

    Raises:
        InvalidRequest: it is another one than the vector store's.
    """
    if isinstance(requested, StaticStrategy) and requested != strategy_of(base):
        raise InvalidRequest.at(path, "All files of a vector store have its own chunking_strategy; create another one")


def _fields(body: NewVectorStore) -> dict[str, Any]:
    """The fields of a knowledge base."""
    fields: dict[str, Any] = {
        "name": body.name or f"vector-store-{uuid4().hex[:12]}",
        "description": body.description,
        # OpenAI's searches have no minimum by default.
        "minScore": 0.0 if body.min_score is None else body.min_score,
        "embeddingProvider": body.embedding_provider,
        "embeddingParameters": body.embedding_parameters,
        "storeType": body.store_type,
        "storeParameters": body.store_parameters,
        "engine": body.engine,
        "chunkStrategy": body.chunk_strategy,
        "chunkSize": body.chunk_size,
        "chunkOverlap": body.chunk_overlap,
        "chunkUnit": body.chunk_unit,
    }
    sized = not (body.chunk_size is None and body.chunk_overlap is None and body.chunk_unit is None)
    static: StaticChunking | None = None if sized else DEFAULT_CHUNKING
    if isinstance(body.chunking_strategy, StaticStrategy):
        static = body.chunking_strategy.static
        if 2 * static.chunk_overlap_tokens > static.max_chunk_size_tokens:
            path = "$.chunking_strategy.static.chunk_overlap_tokens"
            raise InvalidRequest.at(path, "Must be at most half of max_chunk_size_tokens")
        if sized:
            raise InvalidRequest.at("$.chunking_strategy", "chunk_size, chunk_overlap and chunk_unit say the same")
    if static is not None:
        fields |= {
            "chunkUnit": "tokens",
            "chunkSize": static.max_chunk_size_tokens,
            "chunkOverlap": static.chunk_overlap_tokens,
        }
    return {name: value for name, value in fields.items() if value is not None}


def _select() -> sa.Select[ConfigurationRow, dict[str, Any], VectorStoreRow | None]:
    """Knowledge bases that are not deleted, each with its current version and its own properties."""
    return (
        sa.select(ConfigurationRow, ConfigurationVersionRow.body, VectorStoreRow)
        .join(
            ConfigurationVersionRow,
            (ConfigurationVersionRow.configuration_id == ConfigurationRow.id)
            & (ConfigurationVersionRow.version == ConfigurationRow.current_version),
        )
        .join(VectorStoreRow, VectorStoreRow.base_id == ConfigurationRow.id, isouter=True)
        .where(ConfigurationRow.kind == KIND, ConfigurationRow.deleted.is_(False))
    )


def _object(
    row: ConfigurationRow, body: Mapping[str, Any], own: VectorStoreRow | None, usage: _Usage
) -> VectorStoreObject:
    expires = None if own is None else expires_on(own)
    active_on = row.modified_on if own is None or own.active_on is None else max(own.active_on, row.modified_on)
    has_expired = expires is not None and expires <= datetime.now(UTC)
    return VectorStoreObject(
        id=row.id,
        created_at=_seconds(row.created_on),
        name=shown_name(row.name, own),
        description=str(body.get("description", "")),
        usage_bytes=usage.bytes,
        file_counts=usage.file_counts,
        status="expired" if has_expired else "in_progress" if usage.counts.get("in_progress") else "completed",
        expires_after=None if own is None or own.expire_days is None else ExpiresAfter(own.expire_days),
        expires_at=None if expires is None else _seconds(expires),
        last_active_at=_seconds(active_on),
        metadata={} if own is None else dict(own.pairs),
    )


def _seconds(time: datetime) -> int:
    return int(time.timestamp())
