"""The acceptance of the pages of a run: many with one transaction, and an outcome for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import make_url

from ragstore_gateway.claims.runs import RunLost
from ragstore_gateway.configurations.source import SourceSettings
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import QueueFull
from ragstore_gateway.ingestion.acceptance import NewContent
from ragstore_gateway.ingestion.queue import MAX_BYTES, MAX_DOCUMENTS
from ragstore_gateway.sources.document_states import ChangedPage, DocumentTaken, PageNotStorable, Pending
from ragstore_gateway.sources.page_acceptance import PageOutcome
from ragstore_gateway.sources.visit import CrawlEnd, Visit
from ragstore_gateway.sources.waiting_pages import WaitingPages
from ragstore_gateway.tenants.errors import TenantDocumentsExceeded
from tests.support.source_runs import Site, visit_of
from tests.support.statements import statements

OF_A_TRANSACTION = 14
"""Statements, however many pages the transaction has."""

SECONDS = 30.0
NOT_STORABLE = "\ud800"
"""A name that no database stores: it is not valid Unicode."""


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A base with a source."""
    database = Database(make_url(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}"))
    async with database.running():
        yield Site(database)


@pytest.fixture
async def either_site(database_url: str) -> AsyncIterator[Site]:
    """A base with a source, once in each database."""
    database = Database(make_url(database_url))
    async with database.running():
        yield Site(database)


def page_of(name: str, content: bytes = b"tea") -> ChangedPage:
    """A page with a text."""
    return ChangedPage(name, Visit(name, "changed", media_type="text/plain", content=content), None)


async def accept(site: Site, pages: Sequence[ChangedPage], found: Sequence[str] = ()) -> list[PageOutcome]:
    """Accept pages of a run that begins, and ends it."""
    run = await site.claim()
    outcomes = await site.documents.acceptance.accept(run, "tea", pages, found)
    await site.runs.cancel(site.base_id, "docs", run_id=run.id)
    return outcomes


async def test_a_transaction_takes_as_many_statements_for_32_pages_as_for_one(either_site: Site) -> None:
    pages = [page_of(f"page {number}") for number in range(MAX_DOCUMENTS)]
    run = await either_site.claim()
    await either_site.documents.acceptance.accept(run, "tea", [page_of("first")])
    for part in ([page_of("alone")], pages, pages):
        with statements(either_site.database) as found:
            outcomes = await either_site.documents.acceptance.accept(run, "tea", part)
        assert all(isinstance(outcome, Pending) for outcome in outcomes)
        assert len(found) <= OF_A_TRANSACTION, found
        assert sum(statement.startswith("INSERT INTO ingestion_payload") for statement in found) == 1


async def test_the_end_of_32_ingestions_takes_as_many_statements_as_that_of_one(either_site: Site) -> None:
    run = await either_site.claim()
    numbers = set()
    for count in (1, MAX_DOCUMENTS):
        pages = [page_of(f"{count} {number}") for number in range(count)]
        outcomes = await either_site.documents.acceptance.accept(run, "tea", pages)
        pending = [outcome for outcome in outcomes if isinstance(outcome, Pending)]
        await either_site.end_ingestions()
        with statements(either_site.database) as found:
            assert len(await either_site.documents.ended(run.id, pending)) == count
        numbers.add(len(found))
    assert len(numbers) == 1


async def test_a_document_of_a_person_keeps_only_its_own_page_out(site: Site) -> None:
    run = await site.claim()
    await site.accept_of_a_person(NewContent("mine", "text/plain", b"tea", ""))
    outcomes = await site.documents.acceptance.accept(run, "tea", [page_of(name) for name in ("a", "mine", "b")])
    assert [type(outcome) for outcome in outcomes] == [Pending, DocumentTaken, Pending]
    assert await site.waiting() == 3


async def test_a_document_goes_to_another_page_of_its_name_unless_the_run_has_found_its_own(site: Site) -> None:
    await accept(site, [page_of("a"), page_of("b")])
    moved = [ChangedPage(name, Visit(f"{name}/", "changed", content=b"tea"), None) for name in ("a", "b")]
    taken, other = await accept(site, moved, ["a"])
    assert isinstance(taken, DocumentTaken)
    assert isinstance(other, Pending)
    assert (other.former, other.visit.content) == ("b", b"")


async def test_a_page_that_the_database_rejects_has_no_effect_on_the_others(either_site: Site) -> None:
    outcomes = await accept(either_site, [page_of(name) for name in ("a", NOT_STORABLE, "b")])
    assert [type(outcome) for outcome in outcomes] == [Pending, PageNotStorable, Pending]
    assert await either_site.waiting() == 2


async def test_the_pages_that_the_queue_has_no_room_for_are_not_accepted(site: Site) -> None:
    small = Site(site.database, max_waiting=2)
    outcomes = await accept(small, [page_of(name) for name in ("a", "b", "c")])
    assert [type(outcome) for outcome in outcomes] == [Pending, Pending, QueueFull]
    assert await small.waiting() == 2


async def test_the_pages_beyond_the_limit_of_a_tenant_are_not_accepted_and_not_tried_again(either_site: Site) -> None:
    small = Site(either_site.database, max_documents=2)
    outcomes = await accept(small, [page_of(name) for name in ("a", "b", "c")])
    assert [type(outcome) for outcome in outcomes] == [Pending, Pending, TenantDocumentsExceeded]
    assert await small.waiting() == 2


async def test_a_run_that_has_ended_accepts_no_page(site: Site) -> None:
    run = await site.claim()
    await site.runs.cancel(site.base_id, "docs", run_id=run.id)
    with pytest.raises(RunLost):
        await site.documents.acceptance.accept(run, "tea", [page_of("a"), page_of("b")])
    assert await site.waiting() == 0


class SlowPages:
    """Visits of two pages, which end when both pages are accepted."""

    end = CrawlEnd(complete=True)

    def __init__(self, site: Site) -> None:
        self._site = site

    async def visits(self) -> AsyncGenerator[Visit, None]:
        """The visits."""
        for url in ("a", "b"):
            yield visit_of(url)
        await self._site.until_waiting(2)
        await self._site.end_ingestions()


async def test_a_page_is_accepted_while_the_next_one_is_not_found_yet(site: Site) -> None:
    async with asyncio.timeout(SECONDS):
        found = await site.read(await site.visit(SlowPages(site), SourceSettings()))
    assert (found.state, found.added) == ("completed", 2)


async def test_a_page_that_cannot_be_stored_is_a_failed_one_of_the_run(site: Site) -> None:
    run = asyncio.create_task(site.run(["a", NOT_STORABLE, "b"], SourceSettings()))
    async with asyncio.timeout(SECONDS):
        await site.until_waiting(2)
        await site.end_ingestions()
        found = await site.read(await run)
    assert (found.state, found.added, found.failed) == ("completed", 2, 1)


def test_pages_wait_for_one_transaction_up_to_the_size_of_a_job() -> None:
    many, large = WaitingPages(), WaitingPages()
    for number in range(MAX_DOCUMENTS):
        assert many.has_room_for(page_of(str(number)))
        many.add(page_of(str(number)))
    assert not many.has_room_for(page_of("next"))
    assert large.has_room_for(page_of("large", b"x" * (MAX_BYTES + 1)))
    large.add(page_of("half", b"x" * (MAX_BYTES // 2)))
    assert large.has_room_for(page_of("other half", b"x" * (MAX_BYTES // 2)))
    assert not large.has_room_for(page_of("more", b"x" * (MAX_BYTES // 2 + 1)))
    assert not large.has_room_for(page_of("half"))
