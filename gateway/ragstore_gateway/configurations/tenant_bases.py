"""`TenantBases`: the maximum number of knowledge bases of a tenant."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.configurations.configuration import Configuration, ConfigurationListener
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.tables import ConfigurationRow
from ragstore_gateway.database.locks import lock_name
from ragstore_gateway.tenants import metrics
from ragstore_gateway.tenants.errors import TenantBasesExceeded
from ragstore_gateway.tenants.limits import LimitsByTenant


class TenantBases(ConfigurationListener[KnowledgeBase]):
    """Rejects a new knowledge base beyond the maximum of its tenant, in the transaction that creates it.

    Args:
        limits: the limits of all tenants.
    """

    def __init__(self, limits: LimitsByTenant) -> None:
        self._limits = limits

    async def created(self, session: AsyncSession, after: Configuration[KnowledgeBase]) -> None:
        """Count the bases of the tenant, one transaction after the other.

        Raises:
            TenantBasesExceeded: the tenant has more than its maximum.
        """
        row = await session.get_one(ConfigurationRow, after.id)
        limit = self._limits.of(row.tenant).max_bases
        if limit is None:
            return
        # Another lock than for documents: a transaction that copies documents locks the copied base in between.
        await lock_name(session, f"tenant bases {row.tenant}")
        own = sa.select(sa.func.count()).where(
            ConfigurationRow.tenant == row.tenant,
            ConfigurationRow.kind == "rags",
            ConfigurationRow.deleted.is_(False),
        )
        if (await session.scalar(own) or 0) > limit:
            metrics.refused(row.tenant, "maxBases")
            raise TenantBasesExceeded(
                f"The tenant '{row.tenant}' may have at most {limit} knowledge bases (maxBases); delete one first"
            )
