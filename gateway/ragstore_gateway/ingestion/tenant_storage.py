"""`TenantStorage`: the maximum number and size of the documents of a tenant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.configurations.tables import ConfigurationRow
from ragstore_gateway.database.locks import lock_name
from ragstore_gateway.ingestion.tables import DocumentRow, IngestionRow
from ragstore_gateway.ingestion.transactions import INGEST, UNFINISHED
from ragstore_gateway.tenants import metrics
from ragstore_gateway.tenants.errors import TenantBytesExceeded, TenantDocumentsExceeded, TenantLimitExceeded
from ragstore_gateway.tenants.limits import NO_LIMITS, LimitsByTenant, TenantLimits

_PENDING = (
    sa.select(IngestionRow.document_id, sa.func.max(IngestionRow.bytes).label("bytes"))
    .where(IngestionRow.kind == INGEST, IngestionRow.state.in_(UNFINISHED))
    .group_by(IngestionRow.document_id)
    .subquery()
)
"""The largest content of each document that waits for its ingestion."""

_SIZE = sa.case((_PENDING.c.bytes > DocumentRow.bytes, _PENDING.c.bytes), else_=DocumentRow.bytes)
"""The size of a document. While a further content waits, it is the larger size of both."""


async def tenant_documents(session: AsyncSession, tenant: str = "") -> dict[str, tuple[int, int]]:
    """The number of documents of each tenant, and their size together in bytes. Tenants without documents are absent.

    A base that is marked as deleted has its documents until it is removed permanently.

    Args:
        session: a transaction.
        tenant: one tenant; all when empty.
    """
    of_tenant = ConfigurationRow.tenant == tenant if tenant else ConfigurationRow.tenant != ""
    in_base = ConfigurationRow.id == DocumentRow.base_id
    # An index has these columns. A join with the contents that wait would read each row of a document.
    stored = (
        sa.select(ConfigurationRow.tenant, sa.func.count(), sa.func.sum(DocumentRow.bytes))
        .join(DocumentRow, in_base)
        .where(of_tenant)
        .group_by(ConfigurationRow.tenant)
    )
    growing = (
        sa.select(ConfigurationRow.tenant, sa.literal(0), sa.func.sum(_PENDING.c.bytes - DocumentRow.bytes))
        .select_from(_PENDING)
        .join(DocumentRow, DocumentRow.id == _PENDING.c.document_id)
        .join(ConfigurationRow, in_base)
        .where(of_tenant, _PENDING.c.bytes > DocumentRow.bytes)
        .group_by(ConfigurationRow.tenant)
    )
    found: dict[str, tuple[int, int]] = {}
    # One statement: a publication between two of them would count neither the content that waits nor the published one.
    for name, count, size in await session.execute(sa.union_all(stored, growing)):
        documents, bytes_before = found.get(name, (0, 0))
        found[name] = documents + count, bytes_before + int(size)
    return found


@dataclass
class StorageRoom:
    """The room that the limits of a tenant leave, in one transaction.

    Attributes:
        documents: number of the tenant's documents.
        bytes: their size together.
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
        if growth and limits.max_bytes is not None and self.bytes + growth > limits.max_bytes:
            metrics.refused(self.tenant, "maxBytes")
            return TenantBytesExceeded(
                f"The documents of the tenant '{self.tenant}' may have at most {limits.max_bytes} bytes (maxBytes)"
            )
        self.documents, self.bytes = documents, self.bytes + growth
        self.sizes[name] = (known or 0) + growth
        return None


class TenantStorage:
    """Counts the documents of tenants in the transactions that accept documents.

    Args:
        limits: the limits of all tenants.
    """

    def __init__(self, limits: LimitsByTenant) -> None:
        self._limits = limits

    async def room(self, session: AsyncSession, base_id: str, names: Sequence[str]) -> StorageRoom:
        """The room for documents of a base. No other transaction of its tenant accepts documents until this one ends.

        Args:
            session: the transaction, with the base locked.
            base_id: the knowledge base.
            names: names of the documents.
        """
        tenant = (await session.get_one(ConfigurationRow, base_id)).tenant if self._limits else ""
        limits = self._limits.of(tenant)
        if limits.max_documents is None and limits.max_bytes is None:
            return StorageRoom(tenant, NO_LIMITS)
        await lock_name(session, f"tenant documents {tenant}")
        documents, size = (await tenant_documents(session, tenant)).get(tenant, (0, 0))
        known = (
            sa.select(DocumentRow.name, _SIZE)
            .outerjoin(_PENDING, _PENDING.c.document_id == DocumentRow.id)
            .where(DocumentRow.base_id == base_id, DocumentRow.name.in_(set(names)))
        )
        sizes = {name: int(each) for name, each in await session.execute(known)}
        return StorageRoom(tenant, limits, documents, size, sizes)
