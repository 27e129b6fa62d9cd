"""`TenantUsage`: measures what tenants use of their limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import time
from typing import Final

import msgspec
import sqlalchemy as sa

from ragstore.kit.background import in_background
from ragstore_gateway.configurations.tables import ConfigurationRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.repetition import forever
from ragstore_gateway.ingestion.tenant_storage import TenantStorage
from ragstore_gateway.tenants.metrics import LIMIT, USAGE
from ragstore_gateway.tenants.shared_quota import REQUESTS, TOKENS
from ragstore_gateway.tenants.tables import TenantUsageRow

MEASURE_SECONDS: Final = 10.0

_RATES: Final = {rate.kind: rate for rate in (REQUESTS, TOKENS)}


class TenantUsage:
    """Sets the metrics of usage and limits, in each replica. Nothing is measured if the settings have no limits.

    Args:
        storage: counts documents and files, and has the limits.
    """

    def __init__(self, database: Database, storage: TenantStorage) -> None:
        self._database = database
        self._storage = storage
        self._limits = storage.limits
        self._measured: set[str] = set(storage.limits.named)

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Measure in the background."""
        measuring = [forever(self.measure, MEASURE_SECONDS, "usage of tenants not measured")] if self._limits else []
        async with in_background(*measuring):
            yield

    async def measure(self) -> None:
        """Set the metrics.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        usage = await self._used()
        self._measured.update(usage)
        for tenant, used in usage.items():
            for limit, value in used.items():
                USAGE.labels(tenant, limit).set(value)
            for limit, maximum in msgspec.to_builtins(self._limits.of(tenant)).items():
                if maximum is not None:
                    LIMIT.labels(tenant, limit).set(maximum)

    async def _used(self) -> dict[str, dict[str, int]]:
        """For each tenant, what it uses of each limit."""
        tenant = ConfigurationRow.tenant
        bases = (
            sa.select(tenant, sa.func.count())
            .where(tenant != "", ConfigurationRow.kind == "rags", ConfigurationRow.deleted.is_(False))
            .group_by(tenant)
        )
        none = {"maxBases": 0, "maxDocuments": 0, "maxBytes": 0, **{rate.name: 0 for rate in _RATES.values()}}
        used: defaultdict[str, dict[str, int]] = defaultdict(none.copy)
        for name in self._measured:
            # A tenant whose last base was removed uses nothing.
            used[name] = none.copy()
        async with self._database.reading() as session:
            for name, count in await session.execute(bases):
                used[name]["maxBases"] = count
            for name, (count, size) in (await self._storage.used(session)).items():
                used[name] |= {"maxDocuments": count, "maxBytes": size}
            for row in await session.scalars(sa.select(TenantUsageRow)):
                rate = _RATES[row.kind]
                used[row.tenant][rate.name] = row.used if row.period == int(time() // rate.seconds) else 0
        return used
