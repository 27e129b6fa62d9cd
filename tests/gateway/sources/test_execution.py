"""The time of a run: what it waits for, and what it does not wait for. The test ends the ingestions itself.

The same site shows what previews keep and list.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa

from ragstore_gateway.claims import execution as claimed_execution_module
from ragstore_gateway.configurations.source import Source, SourceSettings
from ragstore_gateway.database import engine as engine_module
from ragstore_gateway.database import repetition as repetition_module
from ragstore_gateway.database.database import Database
from ragstore_gateway.sources import execution as execution_module
from ragstore_gateway.sources import previews as previews_module
from ragstore_gateway.sources.execution import MAX_PENDING
from ragstore_gateway.sources.previews import Previews
from ragstore_gateway.sources.source_kind import SourceKind
from ragstore_gateway.sources.tables import SourceDocumentRow
from ragstore_gateway.sources.visit import Visit
from tests.support.source_runs import Pages, Site

SECONDS: Final = 30.0
NO_TIME: Final = SourceSettings(time_budget_minutes=0)
"""The deadline of a run is its begin. A configuration has at least a minute."""


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A base with a source."""
    database = Database(sa.make_url(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}"))
    async with database.running():
        yield Site(database)


async def test_a_run_waits_for_its_ingestions_after_its_deadline(site: Site) -> None:
    run = asyncio.create_task(site.run(["a", "b"], NO_TIME))
    async with asyncio.timeout(SECONDS):
        await site.until_waiting(2)
        # It waits: it has looked at them several times since.
        assert not (await asyncio.wait([run], timeout=3 * execution_module.POLL_SECONDS))[0]
        await site.end_ingestions()
        found = await site.read(await run)
    assert (found.state, found.reason, found.added, found.chunks) == ("completed", "", 2, 2)


async def test_the_wait_for_ingestions_is_bounded_and_the_next_run_has_their_documents(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_module, "DRAIN_SECONDS", 0.0)
    async with asyncio.timeout(SECONDS):
        found = await site.read(await site.run(["a", "b"], NO_TIME))
    assert (found.state, found.reason, found.added) == ("incomplete", "time_budget", 0)
    await site.end_ingestions()
    async with asyncio.timeout(SECONDS):
        run = asyncio.create_task(site.run(["a", "b"], SourceSettings()))
        await site.until_waiting(2)
        await site.end_ingestions()
        found = await site.read(await run)
    assert (found.state, found.reason, found.added + found.changed) == ("completed", "", 2)


async def test_pages_that_wait_for_ingestions_do_not_delay_the_end_of_a_run_beyond_its_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_module, "DRAIN_SECONDS", 0.0)
    async with asyncio.timeout(SECONDS):
        found = await site.read(await site.run([str(number) for number in range(MAX_PENDING + 2)], NO_TIME))
    assert (found.state, found.reason, found.failed) == ("incomplete", "time_budget", 0)
    assert await site.waiting() == MAX_PENDING


async def test_a_full_queue_does_not_delay_the_end_of_a_run_beyond_its_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_module, "DRAIN_SECONDS", 0.0)
    busy = Site(site.database, max_waiting=1)
    async with asyncio.timeout(SECONDS):
        found = await busy.read(await busy.run(["a", "b", "c"], NO_TIME))
    assert (found.state, found.reason, found.failed) == ("incomplete", "time_budget", 0)
    assert await busy.waiting() == 1


async def test_the_history_of_a_cancelled_run_counts_the_documents_that_it_stored(site: Site) -> None:
    run = asyncio.create_task(site.run(["a", "b"], SourceSettings()))
    async with asyncio.timeout(SECONDS):
        await site.until_waiting(2)
        await site.end_ingestions("a")
        await site.until_stored(1)
        await site.runs.cancel(site.base_id, "docs", run_id=site.run_id)
        assert site.execution is not None
        site.execution.lose()
        found = await site.read(await run)
    assert (found.state, found.reason, found.added, found.chunks) == ("cancelled", "requested", 1, 1)


async def test_the_links_of_a_page_are_read_only_when_it_is_visited(site: Site) -> None:
    run = asyncio.create_task(site.run(["a", "b"], SourceSettings()))
    async with asyncio.timeout(SECONDS):
        await site.until_waiting(2)
        await site.end_ingestions()
        await run
    await site.set_published()
    known = await site.documents.load(site.base_id, "docs")
    assert {url: each.page.links for url, each in known.items()} == {"a": (), "b": ()}
    assert (await site.documents.page(known["a"])).links == ("a/next",)


@pytest.fixture
async def busy_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Site, sqlite3.Connection]]:
    """A base with a source in a database that hardly waits, and another connection to it."""
    monkeypatch.setattr(engine_module, "BUSY_SECONDS", 0.05)
    path = tmp_path / "gateway.db"
    database = Database(sa.make_url(f"sqlite+aiosqlite:///{path}"))
    async with database.running(), asyncio.timeout(SECONDS):
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            yield Site(database), other


@pytest.mark.parametrize("reason", ["", "max_pages"])
async def test_a_run_that_ends_while_the_database_is_busy_ends_when_it_is_free_again(
    busy_site: tuple[Site, sqlite3.Connection], monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    site, other = busy_site
    attempts: list[int] = []

    def backoff(attempt: int) -> float:
        attempts.append(attempt)
        if attempt == 2:
            other.execute("ROLLBACK")
        return 0.0

    monkeypatch.setattr(repetition_module, "backoff", backoff)
    found = await site.read(await site.run([], SourceSettings(), reason, lambda: other.execute("BEGIN IMMEDIATE")))
    assert attempts == [1, 2]
    assert (found.state, found.reason) == ("incomplete" if reason else "completed", reason)


async def test_a_run_whose_end_cannot_be_written_for_long_is_left_to_its_lease(
    busy_site: tuple[Site, sqlite3.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, other = busy_site
    monkeypatch.setattr(claimed_execution_module, "RECORD_SECONDS", 0.0)
    run_id = await site.run([], SourceSettings(), "", lambda: other.execute("BEGIN IMMEDIATE"))
    assert (await site.read(run_id)).state == "running"


async def test_a_completed_run_counts_a_missing_page_once_although_its_end_is_repeated(
    busy_site: tuple[Site, sqlite3.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, other = busy_site
    first = asyncio.create_task(site.run(["a"], SourceSettings()))
    await site.until_waiting(1)
    await site.end_ingestions()
    await first
    await site.set_published()

    def backoff(_: int) -> float:
        other.execute("ROLLBACK")
        return 0.0

    monkeypatch.setattr(repetition_module, "backoff", backoff)
    found = await site.read(await site.run([], SourceSettings(), "", lambda: other.execute("BEGIN IMMEDIATE")))
    assert (found.state, found.missing, found.removed) == ("completed", 1, 0)
    async with site.database.reading() as session:
        assert list(await session.scalars(sa.select(SourceDocumentRow.missed_runs))) == [1]


class Content(bytes):
    """The content of a page. The class counts the contents in memory."""

    alive = 0

    def __new__(cls, content: bytes) -> Content:
        cls.alive += 1
        return super().__new__(cls, content)

    def __del__(self) -> None:
        type(self).alive -= 1


class LargePages(Pages):
    """Visits with contents, at most two of which are in memory."""

    async def visits(self) -> AsyncGenerator[Visit, None]:
        """The visits."""
        async for visit in super().visits():
            yield replace(visit, content=Content(visit.content))
            del visit
            assert Content.alive <= 2


async def test_a_preview_keeps_no_content_of_the_pages_that_it_has_visited(site: Site) -> None:
    await site.run([], SourceSettings())
    kind = SourceKind(lambda *_: LargePages([str(number) for number in range(20)]), lambda url: url, lambda _: 2)
    found = await Previews(site.documents).preview(site.base_id, Source(name="docs"), kind)
    assert len(found.pages) == 20


async def test_a_preview_counts_all_missing_pages_and_lists_the_first_ones(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(previews_module, "MAX_MISSING", 2)
    run = asyncio.create_task(site.run(["a", "b", "c", "d"], SourceSettings()))
    async with asyncio.timeout(SECONDS):
        await site.until_waiting(4)
        await site.end_ingestions()
        await run
    await site.set_published()
    kind = SourceKind(lambda *_: Pages(["a"]), lambda url: url, lambda _: 2)
    found = await Previews(site.documents).preview(site.base_id, Source(name="docs"), kind)
    assert [page.outcome for page in found.pages] == ["changed", "missing", "missing"]
    assert (found.complete, found.missing) == (True, 3)
