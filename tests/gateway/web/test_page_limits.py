"""The texts of the pages of one request have a maximum, and room in the budget of bytes before they are fetched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry, Counter

from ragstore.kit import byte_budget
from ragstore.kit.byte_budget import ByteBudget, Share, request_shares
from ragstore.kit.errors import Overloaded
from ragstore_gateway.extraction.extractor import ExtractionLimits, Extractor
from ragstore_gateway.fetching.errors import ResponseTooLarge
from ragstore_gateway.web import pages as pages_module
from ragstore_gateway.web.pages import MAX_PAGES_IN_PROGRESS, MAX_TEXTS_BYTES, PageReader
from tests.gateway.web.fetchers import a_fetcher
from tests.support.fake_sites import FakeSite
from tests.support.fake_upstream import Exchange

pytestmark = pytest.mark.process

MIB = 1024 * 1024
PLAIN = "Content-Type: text/plain; charset=utf-8"
LIMITS = ExtractionLimits(60, 256 * MIB, 2, MIB, 1_000_000)


@pytest.fixture(scope="module")
async def extractor() -> AsyncIterator[Extractor]:
    """A running extractor."""
    started = Extractor(LIMITS)
    async with started.running():
        yield started


def budget_of(max_bytes: int) -> ByteBudget:
    return ByteBudget(max_bytes, 30, Counter("refusals", "Test.", ["reason"], registry=CollectorRegistry()))


async def test_texts_beyond_the_maximum_are_too_large_and_harm_no_other(
    site: FakeSite, extractor: Extractor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages_module, "MAX_TEXTS_BYTES", 1000)
    # 400 characters that are 800 bytes.
    large, small = site.page("large", "\u00e4" * 400, PLAIN), site.page("small", "x" * 200, PLAIN)
    async with a_fetcher(site) as fetcher:
        reader = PageReader(fetcher, extractor, 60)
        (first,) = await reader.read([large])
        assert first.extracted is not None
        found = await reader.read([large, f"{large}?again", small])
        assert sorted("" if page.error is None else page.error.code for page in found) == [
            "",
            "",
            "response_too_large",
        ]
        assert found[2].error is None
        # A page that is repeated counts each time.
        repeated = await reader.read([large, large, small])
        assert [isinstance(page.error, ResponseTooLarge) for page in repeated] == [True, True, False]
        assert await reader.text(large) == "\u00e4" * 400
        fetched = len(site.requests)
        used_up = await reader.read([f"{small}?{number}" for number in range(3 * MAX_PAGES_IN_PROGRESS)])
        assert [page.error for page in used_up].count(None) == 5
        assert len(site.requests) - fetched < 3 * MAX_PAGES_IN_PROGRESS


async def test_room_is_reserved_before_a_page_is_fetched_and_that_of_the_pages_is_given_back(
    site: FakeSite, extractor: Extractor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_budget, "MAX_WAIT_SECONDS", 0.05)
    budget, holder, response = budget_of(100 * MIB), Share(), Share()
    url = site.page("small", "x" * 200, PLAIN)
    async with a_fetcher(site, max_bytes=5 * MIB) as fetcher:
        reader = PageReader(fetcher, extractor, 60)
        with request_shares(budget, Share(), response):
            await reader.read([f"{url}?{number}" for number in range(10)])
            assert response.size == 2 * MAX_TEXTS_BYTES
        await budget.take(holder, 95 * MIB)
        fetched = len(site.requests)
        with request_shares(budget, Share(), Share()), pytest.raises(Overloaded):
            await reader.read([url])
        assert len(site.requests) == fetched


async def test_some_pages_of_a_request_are_in_progress_at_a_time(site: FakeSite, extractor: Extractor) -> None:
    running, most = 0, 0

    async def slow(exchange: Exchange) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        await exchange.respond(b"A text.", headers=[PLAIN])

    url = site.behave("slow", slow)
    async with a_fetcher(site, max_fetches=100, max_fetches_per_host=100) as fetcher:
        found = await PageReader(fetcher, extractor, 60).read([f"{url}?{n}" for n in range(20)])
    assert ([page.error for page in found], most) == ([None] * 20, MAX_PAGES_IN_PROGRESS)
