"""Claims of ingestions, of runs of sources and of runs of question sets: one protocol, whatever is claimed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.claims.tables import ExecutorRow
from tests.gateway.claims.conftest import GIVEN_BACK, Work

pytestmark = pytest.mark.process

SHORT_SECONDS = 0.3
"""The lease of a process that is late, or has ended."""

LEASE_SECONDS = 3.0
"""The lease of a process that renews it in time. It looks for the work of others every second."""


async def executors(work: Work) -> list[str]:
    """The processes with a lease."""
    async with work.knowledge.database.reading() as session:
        return list(await session.scalars(sa.select(ExecutorRow.id)))


async def remove_leases(work: Work) -> None:
    """Let no process have a lease."""
    async with work.knowledge.database.session() as session:
        await session.execute(sa.delete(ExecutorRow))


async def test_the_work_of_a_process_without_a_lease_is_taken_over_once(work: Work) -> None:
    ended, first, second = (work.process(owner) for owner in ("ended", "first", "second"))
    await ended.claim()
    for each in (first, second):
        assert await each.claims.take_over() == 0
    await remove_leases(work)
    taken = await asyncio.gather(first.claims.take_over(), second.claims.take_over())
    assert sorted(taken) == [0, 1]
    assert await work.state() == GIVEN_BACK[work.kind]
    await second.claim()


async def test_a_process_that_is_late_does_not_take_over_what_it_works_on_itself(work: Work) -> None:
    late = work.process("late")
    await late.claim()
    before = await work.state()
    await remove_leases(work)
    assert await late.claims.take_over() == 0
    assert await work.state() == before


async def test_a_process_gives_back_what_it_has_claimed_and_does_not_work_on(work: Work) -> None:
    own, other = work.process("own"), work.process("other")
    await own.claim()
    assert await own.claims.give_back_left() == 0
    # The response to the commit was lost, or the end of a run could not be written.
    own.claims.claimed.clear()
    assert await other.claims.give_back_left() == 0
    assert await own.claims.give_back_left() == 1
    assert await work.state() == GIVEN_BACK[work.kind]
    assert await executors(work) == ["own"]


async def test_work_is_not_given_back_between_the_commit_of_its_claim_and_its_begin(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = work.process("own")
    await own.leases.hold()
    committed, continued = asyncio.Event(), asyncio.Event()
    session = work.knowledge.database.session

    @asynccontextmanager
    async def late() -> AsyncIterator[AsyncSession]:
        async with session() as begun:
            yield begun
        committed.set()
        await continued.wait()

    monkeypatch.setattr(work.knowledge.database, "session", late)
    claim = asyncio.create_task(own.claim())
    await committed.wait()
    assert await own.claims.give_back_left() == 0
    continued.set()
    await claim
    own.claims.claimed.clear()
    assert await own.claims.give_back_left() == 1


async def test_work_whose_claim_fails_is_not_counted_as_worked_on(work: Work) -> None:
    own = work.process("own")
    await own.claim()
    (claimed,) = own.claims.claimed
    refused = await asyncio.gather(work.claim(own.claims), return_exceptions=True)
    assert (own.claims.claimed, len(refused)) == ({claimed}, 1)


async def test_a_process_that_stops_hands_its_work_over(work: Work) -> None:
    stopped = work.process("stopped")
    async with stopped.leases.running():
        await stopped.claim()
    assert await work.state() == GIVEN_BACK[work.kind]
    assert await executors(work) == []
    # Another process need not wait for the end of a lease.
    await work.process("other").claim()


async def test_a_process_renews_its_lease_and_takes_over_the_work_of_one_that_was_killed(work: Work) -> None:
    killed, living = work.process("killed", SHORT_SECONDS), work.process("living", LEASE_SECONDS)
    await killed.claim()
    async with living.leases.running():
        await living.leases.hold()
        await work.until_given_back()
        assert (await executors(work), living.leases.taken) == (["living"], 1)
    assert not living.interrupted.is_set()


async def test_a_process_without_work_takes_no_lease_and_takes_over_nevertheless(work: Work) -> None:
    killed, idle = work.process("killed", SHORT_SECONDS), work.process("idle", SHORT_SECONDS)
    await killed.claim()
    async with idle.leases.running():
        await work.until_given_back()
    assert (await executors(work), idle.leases.taken) == ([], 0)


async def test_the_work_of_a_process_whose_lease_was_removed_is_interrupted(work: Work) -> None:
    late = work.process("late", LEASE_SECONDS)
    async with late.leases.running():
        await late.claim()
        await remove_leases(work)
        await late.interrupted.wait()
        await work.until_given_back()
        assert (await executors(work), late.leases.taken) == (["late"], 2)
