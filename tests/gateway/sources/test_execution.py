"""The time of a run: what it waits for, and what it does not wait for. The test ends the ingestions itself.

The same site shows what previews keep and list.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec
import pytest
import sqlalchemy as sa

from ragstore_client import AsyncClient
from ragstore_gateway.app import create_secrets
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.source import Source, SourceSettings
from ragstore_gateway.database import database as database_module
from ragstore_gateway.database.database import Database
from ragstore_gateway.embeddings.embeddings import EmbeddingLimits, Embeddings
from ragstore_gateway.engines.assembly import Engines
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.tables import DocumentRow, IngestionRow
from ragstore_gateway.ingestion.transactions import COMPLETED, end_ingestion
from ragstore_gateway.secrets.connections import Connections
from ragstore_gateway.settings import Settings
from ragstore_gateway.sources import execution as execution_module
from ragstore_gateway.sources import previews as previews_module
from ragstore_gateway.sources.execution import MAX_PENDING, Execution
from ragstore_gateway.sources.previews import Previews
from ragstore_gateway.sources.runs import MANUAL, Runs
from ragstore_gateway.sources.source_documents import SourceDocuments
from ragstore_gateway.sources.source_kind import SourceKind
from ragstore_gateway.sources.tables import SourceDocumentRow, SourceRunRow
from ragstore_gateway.sources.visit import CrawlEnd, Visit

SECONDS: Final = 30.0
NO_TIME: Final = SourceSettings(time_budget_minutes=0)
"""The deadline of a run is its begin. A configuration has at least a minute."""

BODY: Final = msgspec.convert(
    {"name": "tea", "sources": [{"name": "docs", "web": {"startUrl": "https://tea.example/"}}]}, KnowledgeBase
)


class Pages:
    """Visits of new pages, all at the beginning of the run."""

    def __init__(self, urls: Sequence[str], reason: str = "", then: Callable[[], object] = lambda: None) -> None:
        self.end = CrawlEnd(complete=not reason, reason=reason)
        self._urls = urls
        self._then = then

    async def visits(self) -> AsyncGenerator[Visit, None]:
        """The visits."""
        for url in self._urls:
            yield Visit(
                url,
                "changed",
                content_hash=url.rjust(64),
                links=(f"{url}/next",),
                media_type="text/plain",
                content=url.encode(),
                is_new=True,
            )
        self._then()


class Site:
    """A base whose ingestions end only by `end_ingestions`: no jobs run.

    Args:
        max_waiting: maximum number of ingestions that have not ended.
    """

    def __init__(self, database: Database, max_waiting: int = 1000) -> None:
        settings = Settings(ingestion_max_waiting=max_waiting)
        connections = Connections()
        embeddings = Embeddings(create_secrets(settings, connections), connections, EmbeddingLimits(1, 1.0, 0))
        stores = Engines(embeddings.secrets, AsyncClient("http://127.0.0.1:1"))
        self.database = database
        self.bases = Configurations(database, "rags", KnowledgeBase)
        extractor = Extractor.from_settings(settings)
        ingestion = Ingestion(settings, database, self.bases, embeddings, stores, extractor)
        self.runs = Runs(database, ingestion.leases)
        self.documents = SourceDocuments(database, ingestion, self.runs)
        self.base_id = self.run_id = ""
        self.execution: Execution | None = None

    async def run(
        self,
        urls: Sequence[str],
        settings: SourceSettings,
        reason: str = "",
        then: Callable[[], object] = lambda: None,
    ) -> str:
        """Execute a run over new pages until its end; its id. The visits end with a reason, and a call."""
        self.base_id = self.base_id or (await self.bases.create(BODY)).id
        run = await self.runs.claim(self.base_id, 1, "docs", MANUAL)
        assert run is not None
        source = Source(name="docs", settings=settings)
        kind = SourceKind(lambda *_: Pages(urls, reason, then), lambda url: url, lambda _: 2)
        self.run_id = run.id
        self.execution = Execution(run, BODY, source, kind, self.runs, self.documents)
        await self.execution.execute()
        return run.id

    async def read(self, run_id: str) -> SourceRunRow:
        """A run."""
        return await self.runs.read(self.base_id, "docs", run_id)

    async def waiting(self) -> int:
        """The number of ingestions that have not ended."""
        query = sa.select(sa.func.count()).select_from(IngestionRow).where(IngestionRow.finished_on.is_(None))
        async with self.database.reading() as session:
            return await session.scalar(query) or 0

    async def until_waiting(self, count: int) -> None:
        """Wait until a number of ingestions have begun."""
        while True:
            if await self.waiting() >= count:
                return
            await asyncio.sleep(0.02)

    async def until_stored(self, count: int) -> None:
        """Wait until a run has recorded a number of documents."""
        query = sa.select(sa.func.count()).select_from(SourceDocumentRow).where(SourceDocumentRow.content_hash != "")
        while True:
            async with self.database.reading() as session:
                if await session.scalar(query) == count:
                    return
            await asyncio.sleep(0.02)

    async def end_ingestions(self, name: str = "") -> None:
        """Complete the ingestions that have not ended, or one document's ingestion."""
        query = sa.select(IngestionRow).where(IngestionRow.finished_on.is_(None))
        if name:
            query = query.where(IngestionRow.document_name == name)
        async with self.database.session() as session:
            for row in await session.scalars(query):
                row.chunks = 1
                await end_ingestion(session, row, COMPLETED)

    async def set_published(self) -> None:
        """Let searches find all documents, as the job engine does."""
        async with self.database.session() as session:
            await session.execute(sa.update(DocumentRow).values(current_revision=DocumentRow.last_ingestion))


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
        await site.runs.cancel(site.base_id, "docs", site.run_id)
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
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.05)
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

    monkeypatch.setattr(execution_module, "backoff", backoff)
    found = await site.read(await site.run([], SourceSettings(), reason, lambda: other.execute("BEGIN IMMEDIATE")))
    assert attempts == [1, 2]
    assert (found.state, found.reason) == ("incomplete" if reason else "completed", reason)


async def test_a_run_whose_end_cannot_be_written_for_long_is_left_to_its_lease(
    busy_site: tuple[Site, sqlite3.Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, other = busy_site
    monkeypatch.setattr(execution_module, "RECORD_SECONDS", 0.0)
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

    monkeypatch.setattr(execution_module, "backoff", backoff)
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
