"""`SharedQuota`: requests or tokens of tenants in a period, counted over all replicas."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.database.database import Database
from ragstore_gateway.database.locks import lock_name
from ragstore_gateway.errors import DatabaseUnavailable
from ragstore_gateway.tenants import metrics
from ragstore_gateway.tenants.errors import TenantRateExceeded, TenantRequestsExceeded, TenantTokensExceeded
from ragstore_gateway.tenants.limits import LimitsByTenant, TenantLimits
from ragstore_gateway.tenants.tables import TenantUsageRow

SHARES: Final = 100
"""The number of shares into which a limit is divided. A process takes a share with one transaction."""

DATABASE_SECONDS: Final = 2.0
"""Maximum wait for the database."""

OFFLINE_SECONDS: Final = 5.0
"""How long a process counts by itself after the database was not available."""

REFUSED_SECONDS: Final = 1.0
"""How long a rejection is repeated without a look at the database."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Rate:
    """A limit for a period.

    Attributes:
        kind: name of the counter in the database.
        seconds: length of the period.
        limit_of: the limit of a tenant; None for none.
        name: the field of the settings.
        error: raised beyond the limit.
        text: what was used, for messages: `N requests of this minute`.
    """

    kind: str
    seconds: int
    limit_of: Callable[[TenantLimits], int | None]
    name: str
    error: type[TenantRateExceeded]
    text: str


REQUESTS: Final = Rate(
    "requests",
    60,
    lambda limits: limits.requests_per_minute,
    "requestsPerMinute",
    TenantRequestsExceeded,
    "requests of this minute",
)
TOKENS: Final = Rate(
    "tokens", 86_400, lambda limits: limits.tokens_per_day, "tokensPerDay", TenantTokensExceeded, "tokens of this day"
)


@dataclass
class _Share:
    """The part of a tenant's limit that a process has in one period.

    Attributes:
        available: what it may still use; negative after a request that used more than it had estimated.
        unrecorded: what it has used while the database was not available.
        refused: the smallest amount that was refused.
        refused_until: when such an amount is looked up again.
    """

    period: int
    available: int = 0
    unrecorded: int = 0
    refused: int = 0
    refused_until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def debt(self) -> int:
        """The usage that is not in the database."""
        return max(0, -self.available) + self.unrecorded


class SharedQuota:
    """A limit of all tenants for a period, over all replicas.

    A process takes shares of a limit from the database, and counts a share in memory. So no more than the limit is
    admitted, whatever the number of replicas, with at most about `SHARES` transactions in a period. A replica may be
    refused while others have a rest of a share.

    While the database is not available, each process admits the whole limit, and adds what it used afterwards: chats
    with the upstream need no database.

    Args:
        clock: seconds since 1970. The clocks of replicas are assumed to agree.
    """

    def __init__(
        self, database: Database, rate: Rate, limits: LimitsByTenant, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._rate = rate
        self._limits = limits
        self._clock = clock
        self._shares: dict[str, _Share] = {}
        self._offline_until = 0.0

    def limit_of(self, tenant: str) -> int | None:
        """The limit of a tenant; None for none."""
        return self._rate.limit_of(self._limits.of(tenant))

    def of(self, tenant: str) -> TenantRate | None:
        """The limit of one tenant; None for none."""
        return None if self.limit_of(tenant) is None else TenantRate(self, tenant)

    async def take(self, tenant: str, amount: int = 1) -> None:
        """Count a request, or the tokens that it is expected to use.

        Args:
            tenant: empty for none.

        Raises:
            TenantRateExceeded: the limit is reached. Nothing was counted.
        """
        limit = self.limit_of(tenant)
        if limit is None:
            return
        # A prompt that exceeds the tokens of a whole day is admitted if none was used.
        needed = min(amount, limit)
        share = self._share(tenant)
        while share.available < needed:
            async with share.lock:
                share = self._share(tenant)
                if share.available < needed:
                    await self._extend(tenant, share, needed, limit)
            share = self._share(tenant)
        share.available -= amount

    def charge(self, tenant: str, amount: int) -> None:
        """Correct what was counted before; a negative number gives some back."""
        if amount and self.limit_of(tenant) is not None:
            self._share(tenant).available -= amount

    async def settle(self) -> None:
        """Add to the database what was used beyond the shares."""
        for tenant, share in list(self._shares.items()):
            if share.debt and self._clock() >= self._offline_until:
                async with share.lock:
                    await self._record(tenant, share)

    async def give_back(self) -> None:
        """Give the rests of shares back: the process ends."""
        for tenant, share in list(self._shares.items()):
            if share.available or share.unrecorded:
                async with share.lock:
                    await self._record(tenant, share, all_of_it=True)

    def _share(self, tenant: str) -> _Share:
        period = int(self._clock() // self._rate.seconds)
        share = self._shares.get(tenant)
        if share is None or share.period != period:
            share = self._shares[tenant] = _Share(period)
        return share

    async def _extend(self, tenant: str, share: _Share, needed: int, limit: int) -> None:
        """Take a further share.

        Raises:
            TenantRateExceeded: too little of the limit is left.
        """
        now = self._clock()
        lacking = needed - max(0, share.available)
        if now < share.refused_until and lacking >= share.refused:
            raise self._exceeded(tenant, limit)
        if now >= self._offline_until:
            debt, behind = share.debt, max(0, -share.available)
            try:
                async with asyncio.timeout(DATABASE_SECONDS), self._database.session() as session:
                    granted = await self._grant(session, tenant, share.period, debt, lacking, limit)
            except (DatabaseUnavailable, TimeoutError):
                self._offline_until = self._clock() + OFFLINE_SECONDS
                _log.warning("requests of tenants are counted without the database", kind=self._rate.kind)
            else:
                share.available += behind + (granted or 0)
                share.unrecorded -= debt - behind
                if granted is None:
                    share.refused, share.refused_until = lacking, self._clock() + REFUSED_SECONDS
                    raise self._exceeded(tenant, limit)
                return
        behind = max(0, -share.available)
        if share.unrecorded + behind + lacking > limit:
            raise self._exceeded(tenant, limit)
        share.available += behind + lacking
        share.unrecorded += behind + lacking

    async def _grant(
        self, session: AsyncSession, tenant: str, period: int, debt: int, lacking: int, limit: int
    ) -> int | None:
        """Take from the limit in a transaction; None if too little is left."""
        row = await self._row(session, tenant, period)
        row.used += debt
        free = limit - row.used
        if free < lacking:
            return None
        granted = min(max(lacking, limit // SHARES), free)
        row.used += granted
        return granted

    async def _row(self, session: AsyncSession, tenant: str, period: int) -> TenantUsageRow:
        """The counter of a tenant, locked."""
        await lock_name(session, f"tenant {self._rate.kind} {tenant}")
        row = await session.get(TenantUsageRow, (tenant, self._rate.kind))
        if row is None:
            row = TenantUsageRow(tenant=tenant, kind=self._rate.kind, period=period, used=0)
            session.add(row)
        elif row.period < period:
            row.period, row.used = period, 0
        return row

    async def _record(self, tenant: str, share: _Share, *, all_of_it: bool = False) -> None:
        available = share.available if all_of_it else min(0, share.available)
        unrecorded = share.unrecorded
        try:
            async with asyncio.timeout(DATABASE_SECONDS), self._database.session() as session:
                row = await self._row(session, tenant, share.period)
                if row.period == share.period:
                    row.used = max(0, row.used + unrecorded - available)
        except (DatabaseUnavailable, TimeoutError):
            self._offline_until = self._clock() + OFFLINE_SECONDS
            return
        share.available -= available
        share.unrecorded -= unrecorded

    def _exceeded(self, tenant: str, limit: int) -> TenantRateExceeded:
        metrics.refused(tenant, self._rate.name)
        now, seconds = self._clock(), self._rate.seconds
        left = max(1, math.ceil((now // seconds + 1) * seconds - now))
        return self._rate.error(
            f"The tenant '{tenant}' has used its {limit} {self._rate.text} ({self._rate.name})", left
        )


@dataclass(frozen=True, slots=True)
class TenantRate:
    """The limit of one tenant for a period."""

    quota: SharedQuota
    tenant: str

    async def take(self, amount: int) -> None:
        """Count an estimate; see `SharedQuota.take`."""
        await self.quota.take(self.tenant, amount)

    def charge(self, amount: int) -> None:
        """Correct it; see `SharedQuota.charge`."""
        self.quota.charge(self.tenant, amount)
