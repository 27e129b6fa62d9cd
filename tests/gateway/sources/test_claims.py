"""Claims of runs in the database: one run of a source in progress, leases, repetitions, the bound of the history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
import pytest
import sqlalchemy as sa
from sqlalchemy import make_url
from sqlalchemy.exc import IntegrityError

from ragstore_gateway.claims import runs as runs_module
from ragstore_gateway.claims.leases import Leases
from ragstore_gateway.claims.runs import COMPLETED, RunLost
from ragstore_gateway.claims.tables import ExecutorRow
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.database.database import Database
from ragstore_gateway.sources.errors import SourceRunning
from ragstore_gateway.sources.runs import MAX_REPEATS, SourceRuns
from ragstore_gateway.sources.schedules import Schedules
from ragstore_gateway.sources.tables import SourceRunRow, SourceScheduleRow

pytestmark = pytest.mark.process

BODY: Final = msgspec.convert(
    {"name": "tea", "sources": [{"name": "docs", "cron": "0 3 1 1 *", "web": {"startUrl": "https://tea.example/"}}]},
    KnowledgeBase,
)


class Claims:
    """The runs of one base, as two processes see them."""

    def __init__(
        self, database: Database, bases: Configurations[KnowledgeBase], base: Configuration[KnowledgeBase]
    ) -> None:
        self.database = database
        self.bases = bases
        self.base = base
        self.leases = [Leases(database, owner, 60) for owner in ("first", "second")]
        self.first, self.second = (SourceRuns(database, lease) for lease in self.leases)
        self.schedules = Schedules(database, self.second, lambda: None)

    async def claim(self, runs: SourceRuns) -> SourceRunRow:
        """Begin a run."""
        run = await runs.claim(self.base.id, 1, "docs")
        assert run is not None
        return run

    async def claim_due(self) -> list[SourceRunRow]:
        """Begin the runs that are due."""
        return [run async for run in self.schedules.claim_due(10)]

    async def expire_leases(self) -> None:
        """Let the leases of both processes be expired."""
        async with self.database.session() as session:
            await session.execute(sa.update(ExecutorRow).values(lease_until=1.0))

    async def take_over(self, process: int) -> int:
        """Let a process take over the runs of processes without a lease; their number."""
        await self.leases[process].end_expired()
        return await (self.first, self.second)[process].take_over()

    async def renew_leases(self) -> None:
        """Let the leases of both processes be valid."""
        for lease in self.leases:
            await lease.renew()

    async def set_due(self) -> None:
        """Let the schedule be due."""
        async with self.database.session() as session:
            await session.execute(sa.update(SourceScheduleRow).values(next_on=datetime.now(UTC) - timedelta(days=1)))


@pytest.fixture
async def claims(database_url: str) -> AsyncIterator[Claims]:
    """A base with a source."""
    database = Database(make_url(database_url))
    async with database.running():
        bases = Configurations(database, "rags", KnowledgeBase)
        bases.add_listener(Schedules(database, SourceRuns(database, Leases(database, "first", 60)), lambda: None))
        yield Claims(database, bases, await bases.create(BODY))


async def test_the_database_rejects_a_second_run_of_a_source(claims: Claims) -> None:
    run = await claims.claim(claims.first)
    with pytest.raises(SourceRunning, match=run.id):
        await claims.claim(claims.second)
    values = {column.name: getattr(run, column.name) for column in SourceRunRow.__table__.columns}
    second = sa.insert(SourceRunRow).values({**values, "id": "other"})
    async with claims.database.reading() as session:
        with pytest.raises(IntegrityError):
            await session.execute(second)


async def test_a_run_whose_lease_has_expired_is_interrupted_and_can_write_nothing_more(claims: Claims) -> None:
    run = await claims.claim(claims.first)
    await claims.expire_leases()
    # A process that is late does not end its own runs.
    assert await claims.take_over(0) == 0
    assert await claims.take_over(1) == 1
    assert (await claims.first.read(claims.base.id, "docs", run_id=run.id)).state == "interrupted"
    assert not await claims.first.report(run.id, {"added": 7})
    assert not await claims.first.end(run.id, COMPLETED, "", {"added": 7})
    async with claims.database.session() as session:
        with pytest.raises(RunLost):
            await claims.first.check_running(session, run.id)
    assert (await claims.second.read(claims.base.id, "docs", run_id=run.id)).added == 0


async def test_a_claim_ends_a_run_whose_lease_has_expired(claims: Claims) -> None:
    before = await claims.claim(claims.first)
    await claims.expire_leases()
    await claims.leases[1].renew()
    after = await claims.claim(claims.second)
    assert after.owner == "second"
    ended = await claims.second.read(claims.base.id, "docs", run_id=before.id)
    assert (ended.state, ended.reason) == ("interrupted", "lease_expired")


async def test_a_source_of_an_older_version_of_its_base_is_not_run(claims: Claims) -> None:
    without = msgspec.structs.replace(BODY, sources=[])
    changed = await claims.bases.update(claims.base.id, 1, without)
    assert await claims.first.claim(claims.base.id, 1, "docs") is None
    assert (await claims.first.page(claims.base.id, "docs", index=0, limit=10))[1] == 0
    # The caller reads the version again.
    assert changed.version == 2


async def test_the_counts_of_a_run_that_ended_elsewhere_are_recorded_once_it_has_stopped(claims: Claims) -> None:
    run = await claims.claim(claims.first)
    await claims.first.record(run.id, {"added": 1})
    assert (await claims.second.read(claims.base.id, "docs", run_id=run.id)).added == 0
    await claims.second.cancel(claims.base.id, "docs", run_id=run.id)
    await claims.first.record(run.id, {"added": 3})
    found = await claims.second.read(claims.base.id, "docs", run_id=run.id)
    assert (found.state, found.added) == ("cancelled", 3)


async def test_a_scheduled_run_that_is_interrupted_each_time_is_repeated_three_times(claims: Claims) -> None:
    await claims.set_due()
    for _ in range(1 + MAX_REPEATS):
        assert len(await claims.claim_due()) == 1
        assert await claims.claim_due() == []
        await claims.expire_leases()
        assert await claims.take_over(0) == 1
        await claims.renew_leases()
    assert await claims.claim_due() == []
    await claims.set_due()
    assert len(await claims.claim_due()) == 1


async def test_the_history_of_a_source_is_bounded(claims: Claims, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "MAX_RUNS_KEPT", 3)
    ids = []
    for _ in range(5):
        run = await claims.claim(claims.first)
        ids.append(run.id)
        assert await claims.first.end(run.id, COMPLETED, "", {})
    rows, total = await claims.first.page(claims.base.id, "docs", index=0, limit=10)
    assert ([row.id for row in rows], total) == (ids[:1:-1], 3)
