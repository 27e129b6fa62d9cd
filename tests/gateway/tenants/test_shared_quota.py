"""Requests and tokens of tenants: counted over several processes, each with a share of the limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import sqlalchemy as sa
from sqlalchemy import make_url

from ragstore.kit.settings import SettingsError
from ragstore_gateway.database.database import Database
from ragstore_gateway.tenants.errors import TenantRateExceeded, TenantRequestsExceeded, TenantTokensExceeded
from ragstore_gateway.tenants.limits import LimitsByTenant
from ragstore_gateway.tenants.shared_quota import OFFLINE_SECONDS, REQUESTS, TOKENS, SharedQuota
from ragstore_gateway.tenants.tables import TenantUsageRow
from tests.support.clock import Clock

LIMITS = LimitsByTenant(
    {"acme": {"requestsPerMinute": 1000, "tokensPerDay": 1000}, "free": {}, "*": {"requestsPerMinute": 3}}
)
START = 1_790_000_010.0
"""30 s after the beginning of a minute."""


@pytest.fixture
async def databases(database_url: str) -> AsyncIterator[list[Database]]:
    """Two processes' connections to one database."""
    async with AsyncExitStack() as stack:
        found = [Database(make_url(database_url)) for _ in range(2)]
        for each in found:
            await stack.enter_async_context(each.running())
        yield found


async def used(database: Database, tenant: str = "acme") -> int:
    """The number in the database."""
    async with database.reading() as session:
        return await session.scalar(sa.select(TenantUsageRow.used).where(TenantUsageRow.tenant == tenant)) or 0


async def taken(quota: SharedQuota, tenant: str, times: int) -> int:
    """How many of concurrent requests are admitted."""
    results = await asyncio.gather(*(quota.take(tenant) for _ in range(times)), return_exceptions=True)
    assert all(each is None or isinstance(each, TenantRateExceeded) for each in results)
    return results.count(None)


async def test_two_processes_admit_no_more_than_the_limit_together(databases: list[Database]) -> None:
    clock = Clock(START)
    first, second = (SharedQuota(each, REQUESTS, LIMITS, clock) for each in databases)
    counts = await asyncio.gather(taken(first, "acme", 700), taken(second, "acme", 700))
    # Both take shares until nothing is left, and what one has of a share is refused to the other.
    assert sum(counts) + 2 * 1000 // 100 >= 1000 >= sum(counts)
    assert sum(counts) + await taken(first, "acme", 100) + await taken(second, "acme", 100) == 1000
    with pytest.raises(TenantRequestsExceeded) as caught:
        await first.take("acme")
    assert (caught.value.status, caught.value.code) == (429, "tenant_requests_exceeded")
    assert caught.value.detail == "The tenant 'acme' has used its 1000 requests of this minute (requestsPerMinute)"
    assert caught.value.retry_after == 60 - START % 60
    clock.now += caught.value.retry_after
    await first.take("acme")


async def test_a_tenant_without_a_name_in_the_settings_has_the_limits_of_all_others(databases: list[Database]) -> None:
    quota = SharedQuota(databases[0], REQUESTS, LIMITS, Clock(START))
    assert [await taken(quota, tenant, 5) for tenant in ("small", "tiny", "free", "")] == [3, 3, 5, 5]
    assert quota.of("free") is None


async def test_tokens_beyond_an_estimate_count_for_the_other_process_after_they_are_settled(
    databases: list[Database],
) -> None:
    clock = Clock(START)
    first, second = (SharedQuota(each, TOKENS, LIMITS, clock) for each in databases)
    await first.take("acme", 100)
    first.charge("acme", 850)
    await first.settle()
    assert await used(databases[0]) == 950
    await second.take("acme", 50)
    with pytest.raises(TenantTokensExceeded):
        await second.take("acme", 10)
    # The upstream has generated nothing.
    second.charge("acme", -50)
    await second.give_back()
    assert await used(databases[0]) == 950
    clock.now += 2
    await first.take("acme", 50)


async def test_a_prompt_larger_than_the_limit_of_a_day_is_admitted_if_none_was_used(databases: list[Database]) -> None:
    quota = SharedQuota(databases[0], TOKENS, LIMITS, Clock(START))
    await quota.take("acme", 5000)
    await quota.settle()
    assert await used(databases[0]) == 5000
    with pytest.raises(TenantTokensExceeded):
        await quota.take("acme", 1)


async def test_the_rest_of_a_share_is_given_back_at_the_end(databases: list[Database]) -> None:
    first, second = (SharedQuota(each, TOKENS, LIMITS, Clock(START)) for each in databases)
    await first.take("acme", 1)
    assert await used(databases[0]) == 10
    await first.give_back()
    assert await used(databases[0]) == 1
    await second.take("acme", 999)


async def test_a_process_without_the_database_counts_by_itself_and_adds_it_afterwards(database_url: str) -> None:
    clock = Clock(START)
    database = Database(make_url(database_url))
    quota = SharedQuota(database, REQUESTS, LIMITS, clock)
    assert await taken(quota, "acme", 1200) == 1000
    clock.now += OFFLINE_SECONDS
    async with database.running():
        with pytest.raises(TenantRequestsExceeded):
            await quota.take("acme")
        assert await used(database) == 1000


async def test_one_transaction_serves_the_requests_of_a_share(databases: list[Database]) -> None:
    quota = SharedQuota(databases[0], REQUESTS, LIMITS, Clock(START))
    await quota.take("acme")
    before = await databases[0].version()
    assert await taken(quota, "acme", 9) == 9
    assert await databases[0].version() == before


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"acme": {"maxBases": -1}}, "Expected `int` >= 0 - at `$[...].maxBases`"),
        ({"acme": {"tokens": 1}}, "Object contains unknown field `tokens` - at `$[...]`"),
        ({"acme": {"requestsPerMinute": 0}}, "Expected `int` >= 1 - at `$[...].requestsPerMinute`"),
        ({"**": {}}, "Expected `str` matching regex"),
        ({"a\n": {}}, "Expected `str` matching regex"),
    ],
)
def test_limits_that_cannot_be_used_are_an_error_at_the_start(given: dict[str, dict[str, int]], problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        LimitsByTenant(given)
    assert str(caught.value).startswith(f"RAGSTORE_GATEWAY_TENANTS is wrong: {problem}")
