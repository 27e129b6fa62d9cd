"""`StoreQueries`: the queries of a store, as its responses to writes mention them."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from ragstore_client import AsyncClient, NewDocument
from ragstore_gateway.store.store_queries import MEMORY_SECONDS, StoreQueries
from tests.support.clock import Clock
from tests.support.servers import running, start_service

DOCUMENTS = "http://store/collections/tea/documents"


def response(timing: str | None, method: str = "PUT") -> httpx.Response:
    """A response with a `Server-Timing`."""
    headers = {} if timing is None else {"Server-Timing": timing}
    return httpx.Response(200, headers=headers, request=httpx.Request(method, DOCUMENTS))


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_a_query_is_as_old_as_the_response_says(clock: Clock) -> None:
    queries = StoreQueries(clock)
    await queries.note(response("store;dur=3.10, total;dur=4.00, query-age;dur=400.00"))
    assert queries.may_be_within(0.5)
    assert not queries.may_be_within(0.3)


@pytest.mark.parametrize("timing", [None, "store;dur=3.10, total;dur=4.00", "no-query-age;dur=1.00"])
async def test_a_response_that_mentions_no_query_says_that_there_is_none(clock: Clock, timing: str | None) -> None:
    queries = StoreQueries(clock)
    await queries.note(response("query-age;dur=0.00"))
    clock.now += 2
    await queries.note(response(timing))
    assert not queries.may_be_within(1.0)


async def test_queries_are_likely_for_a_minute_after_one_if_no_response_is_recent(clock: Clock) -> None:
    queries = StoreQueries(clock)
    await queries.note(response("query-age;dur=0.00"))
    clock.now += MEMORY_SECONDS - 1
    assert queries.may_be_within(1.0)
    clock.now += 1
    assert not queries.may_be_within(1.0)


async def test_responses_to_other_requests_say_nothing(clock: Clock) -> None:
    queries = StoreQueries(clock)
    await queries.note(response("query-age;dur=0.00", "POST"))
    assert not queries.may_be_within(1.0)


@pytest.mark.process
async def test_a_client_that_writes_learns_of_the_queries_of_another_one(tmp_path: Path) -> None:
    queries = StoreQueries()
    with running(start_service(tmp_path, {})) as served:
        async with (
            httpx.AsyncClient(event_hooks={"response": [queries.note]}) as http,
            AsyncClient(served.url, http=http) as writer,
            AsyncClient(served.url) as reader,
        ):
            await writer.create_collection("tea")
            await writer.upsert_documents("tea", [NewDocument(id="a", text="Green tea", embedding=[1.0, 0.0])])
            assert not queries.may_be_within(60.0)
            await reader.query("tea", [1.0, 0.0])
            await writer.upsert_documents("tea", [NewDocument(id="a", text="Green tea", embedding=[1.0, 0.0])])
            assert queries.may_be_within(60.0)
