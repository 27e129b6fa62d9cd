"""`TenantStorage`: the maximum number of the documents of a tenant, and the maximum size of its documents and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.configurations.tables import ConfigurationRow
from ragstore_gateway.database.locks import lock_name
from ragstore_gateway.ingestion.tables import DocumentRow, IngestionRow
from ragstore_gateway.ingestion.transactions import INGEST, UNFINISHED
from ragstore_gateway.tenants import metrics
from ragstore_gateway.tenants.errors import TenantBytesExceeded, TenantDocumentsExceeded, TenantLimitExceeded
from ragstore_gateway.tenants.limits import NO_LIMITS, LimitsByTenant, TenantLimits

FileSizes: TypeAlias = sa.Select[str, int]
"""Selects the tenant and the size in bytes of each file of a kind."""

_PENDING = (
    sa.select(IngestionRow.document_id, sa.func.max(IngestionRow.bytes).label("bytes"))
    .where(IngestionRow.kind == INGEST, IngestionRow.state.in_(UNFINISHED))
    .group_by(IngestionRow.document_id)
    .subquery()
)
"""The largest content of each document that waits for its ingestion."""

_SIZE = sa.case((_PENDING.c.bytes > DocumentRow.bytes, _PENDING.c.bytes), else_=DocumentRow.bytes)
"""The size of a document. While a further content waits, it is the larger size of both."""


@dataclass
class StorageRoom:
    """The room that the limits of a tenant leave, in one transaction.

    Attributes:
        documents: number of the tenant's documents.
        bytes: the size of its documents and files together.
        sizes: sizes of the documents that the base has, by their names.
    """

    tenant: str
    limits: TenantLimits
    documents: int = 0
    bytes: int = 0
    sizes: dict[str, int] = field(default_factory=dict)

    def take(self, name: str, size: int) -> TenantLimitExceeded | None:
        """Take the room for a document. Of a document that exists, the difference counts.

        Args:
            size: in bytes.

        Returns:
            None; or why there is no room, which was not taken then.
        """
        known = self.sizes.get(name)
        documents = self.documents + (known is None)
        growth = max(0, size - (known or 0))
        limits = self.limits
        if known is None and limits.max_documents is not None and documents > limits.max_documents:
            metrics.refused(self.tenant, "maxDocuments")
            return TenantDocumentsExceeded(
                f"The tenant '{self.tenant}' may have at most {limits.max_documents} documents (maxDocuments)"
            )
        if (reason := self.take_bytes(growth)) is not None:
            return reason
        self.documents = documents
        self.sizes[name] = (known or 0) + growth
        return None

    def take_bytes(self, growth: int) -> TenantBytesExceeded | None:
        """Take the room for further bytes; see `take`."""
        limit = self.limits.max_bytes
        if growth > 0 and limit is not None and self.bytes + growth > limit:
            metrics.refused(self.tenant, "maxBytes")
            return TenantBytesExceeded(
                f"The documents and files of the tenant '{self.tenant}' may have at most {limit} bytes (maxBytes)"
            )
        self.bytes += growth
        return None


class TenantStorage:
    """Counts the documents and files of tenants in the transactions that accept them.

    Args:
        limits: the limits of all tenants.
        files: each kind of files.
    """

    def __init__(self, limits: LimitsByTenant, files: Sequence[FileSizes] = ()) -> None:
        self.limits = limits
        self._files = [each.subquery() for each in files]

    async def used(self, session: AsyncSession, tenant: str = "") -> dict[str, tuple[int, int]]:
        """The number of documents of each tenant, and the size of its documents and files in bytes.

        Tenants without both are absent. A base that is marked as deleted has its documents until it is removed
        permanently.

        Args:
            session: a transaction.
            tenant: one tenant; all when empty.
        """
        in_base = ConfigurationRow.id == DocumentRow.base_id
        # An index has these columns. A join with the contents that wait would read each row of a document.
        stored = (
            sa.select(ConfigurationRow.tenant, sa.func.count(), sa.func.sum(DocumentRow.bytes))
            .join(DocumentRow, in_base)
            .where(_is(ConfigurationRow.tenant, tenant))
            .group_by(ConfigurationRow.tenant)
        )
        growing = (
            sa.select(ConfigurationRow.tenant, sa.literal(0), sa.func.sum(_PENDING.c.bytes - DocumentRow.bytes))
            .select_from(_PENDING)
            .join(DocumentRow, DocumentRow.id == _PENDING.c.document_id)
            .join(ConfigurationRow, in_base)
            .where(_is(ConfigurationRow.tenant, tenant), _PENDING.c.bytes > DocumentRow.bytes)
            .group_by(ConfigurationRow.tenant)
        )
        files = [
            sa.select(each.c.tenant, sa.literal(0), sa.func.sum(each.c.bytes))
            .where(_is(each.c.tenant, tenant))
            .group_by(each.c.tenant)
            for each in self._files
        ]
        found: dict[str, tuple[int, int]] = {}
        # One statement: a publication between two would count neither the content that waits nor the published one.
        for name, count, size in await session.execute(sa.union_all(stored, growing, *files)):
            documents, bytes_before = found.get(name, (0, 0))
            found[name] = documents + count, bytes_before + int(size)
        return found

    async def room(self, session: AsyncSession, base_id: str, names: Sequence[str]) -> StorageRoom:
        """The room for documents of a base. No other transaction takes room of its tenant until this one ends.

        Args:
            session: the transaction, with the base locked.
            base_id: the knowledge base.
            names: names of the documents; none for files of the base.
        """
        tenant = (await session.get_one(ConfigurationRow, base_id)).tenant if self.limits else ""
        room = await self.room_of(session, tenant)
        if room.limits is NO_LIMITS or not names:
            return room
        known = (
            sa.select(DocumentRow.name, _SIZE)
            .outerjoin(_PENDING, _PENDING.c.document_id == DocumentRow.id)
            .where(DocumentRow.base_id == base_id, DocumentRow.name.in_(set(names)))
        )
        room.sizes = {name: int(each) for name, each in await session.execute(known)}
        return room

    async def room_of(self, session: AsyncSession, tenant: str) -> StorageRoom:
        """The room of a tenant. No other transaction takes room of it until this one ends.

        Args:
            session: a transaction that writes.
            tenant: empty for none.
        """
        limits = self.limits.of(tenant)
        if limits.max_documents is None and limits.max_bytes is None:
            return StorageRoom(tenant, NO_LIMITS)
        await lock_name(session, f"tenant documents {tenant}")
        documents, size = (await self.used(session, tenant)).get(tenant, (0, 0))
        return StorageRoom(tenant, limits, documents, size)

    async def take_bytes(self, session: AsyncSession, tenant: str, size: int) -> None:
        """Take the room for a file.

        Args:
            session: the transaction that stores it.
            tenant: empty for none.
            size: in bytes.

        Raises:
            TenantBytesExceeded: there is no room.
        """
        if (reason := (await self.room_of(session, tenant)).take_bytes(size)) is not None:
            raise reason


def _is(column: sa.SQLColumnExpression[str], tenant: str) -> sa.ColumnElement[bool]:
    """Whether a row is a tenant's; any tenant's when empty."""
    return column == tenant if tenant else column != ""
