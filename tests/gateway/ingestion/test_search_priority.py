"""Ingestions wait for searches, and end nevertheless."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import anyio
import httpx
import numpy as np
import pytest

from ragstore_gateway.engines.engine_collection import Record
from ragstore_gateway.engines.in_memory_store import InMemoryStore
from ragstore_gateway.ingestion import search_priority
from ragstore_gateway.ingestion.errors import LeaseLost
from ragstore_gateway.ingestion.search_priority import MAX_REST_SECONDS, REST, SMALL_WRITE, SearchPriority
from ragstore_gateway.store.store_queries import StoreQueries
from tests.gateway.ingestion.conftest import new_base
from tests.support.ingestion import EmbeddingServer, until
from tests.support.metric_samples import grown, samples_of

UPSERTS = 'ragstore_chroma_duration_seconds_count{operation="upsert"}'


class Recorded(InMemoryStore):
    """An engine that records the number of records of each write."""

    def __init__(self) -> None:
        super().__init__({}, "tea", 2)
        self.writes: list[int] = []

    async def write(self, records: Sequence[Record]) -> None:
        """Store records."""
        self.writes.append(len(records))
        await super().write(records)


class Slow(InMemoryStore):
    """An engine whose writes take 10 ms. It records when each begins and ends."""

    def __init__(self) -> None:
        super().__init__({}, "tea", 2)
        self.times: list[tuple[float, float]] = []

    async def write(self, records: Sequence[Record]) -> None:
        """Store records."""
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(0.01)
        await super().write(records)
        self.times.append((began, asyncio.get_running_loop().time()))


@pytest.fixture
def priority(monkeypatch: pytest.MonkeyPatch) -> SearchPriority:
    """A priority whose pauses end with the searches only."""
    monkeypatch.setattr(search_priority, "PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(search_priority, "LONG_SEARCH_SECONDS", 3600.0)
    return SearchPriority()


async def turns() -> None:
    """Let everything run that can run."""
    for _ in range(20):
        await asyncio.sleep(0)


async def wait() -> None:
    """Wait as for a response: until another callback of the event loop has run."""
    response: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(response.set_result, None)
    await response


async def steps(done: list[str], name: str) -> str:
    """Three steps."""
    for number in range(3):
        done.append(f"{name}{number}")
        await wait()
    return name


async def test_a_step_waits_for_the_end_of_all_searches(priority: SearchPriority) -> None:
    done: list[str] = []
    with priority.search():
        with priority.search():
            task = asyncio.create_task(priority.pausing(steps(done, "a")))
            await turns()
            assert done == []
        await turns()
        assert done == []
    assert await task == "a"
    assert done == ["a0", "a1", "a2"]


async def test_a_search_that_begins_during_a_step_delays_all_other_steps(priority: SearchPriority) -> None:
    done: list[str] = []
    over = asyncio.Event()

    async def search() -> None:
        with priority.search():
            await over.wait()

    async def begin() -> None:
        searches.append(asyncio.create_task(search()))
        await wait()
        done.append("begun")

    searches: list[asyncio.Task[None]] = []
    with priority.search():
        tasks = [asyncio.create_task(priority.pausing(each)) for each in (begin(), steps(done, "a"), steps(done, "b"))]
        await turns()
    await turns()
    assert "begun" not in done
    over.set()
    await asyncio.gather(*tasks, *searches)
    assert sorted(done) == ["a0", "a1", "a2", "b0", "b1", "b2", "begun"]


async def test_steps_continue_beside_searches_without_end() -> None:
    done: list[str] = []
    priority = SearchPriority()
    with priority.search():
        found = await asyncio.gather(*(priority.pausing(steps(done, name)) for name in "abcdefgh"))
    assert "".join(found) == "abcdefgh"


async def test_a_pause_that_has_ended_does_not_shorten_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_priority, "PAUSE_SECONDS", 3600.0)
    monkeypatch.setattr(search_priority, "LONG_SEARCH_SECONDS", 0.05)
    done: list[str] = []
    priority = SearchPriority()
    with priority.search():
        first = asyncio.create_task(priority.pausing(steps(done, "a")))
        await turns()
    await first
    monkeypatch.setattr(search_priority, "LONG_SEARCH_SECONDS", 3600.0)
    with priority.search():
        second = asyncio.create_task(priority.pausing(steps(done, "b")))
        await asyncio.sleep(0.1)
        assert "b0" not in done
    assert await second == "b"


async def test_steps_that_still_wait_continue_although_one_short_search_follows_the_other() -> None:
    done: list[str] = []
    priority = SearchPriority()
    tasks = [asyncio.create_task(priority.pausing(steps(done, name))) for name in "abcdefgh"]
    async with asyncio.timeout(30):
        while not all(task.done() for task in tasks):
            with priority.search():
                await asyncio.sleep(0.01)


async def test_no_search_waits_for_a_lock_of_a_coroutine_that_is_paused(priority: SearchPriority) -> None:
    lock = anyio.Lock()

    async def hold() -> None:
        async with lock:
            pass
        await wait()

    task = asyncio.create_task(priority.pausing(hold()))
    await asyncio.sleep(0)
    assert lock.locked()
    with priority.search():
        async with asyncio.timeout(30), lock:
            assert not task.done()
    await task


async def test_a_coroutine_gets_the_errors_and_the_cancellation_of_its_waits(priority: SearchPriority) -> None:
    failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    caught: list[str] = []

    async def fail() -> None:
        try:
            await failing
        except ValueError as error:
            caught.append(str(error))
        try:
            await asyncio.Event().wait()
        finally:
            caught.append("cancelled")

    task = asyncio.create_task(priority.pausing(fail()))
    await turns()
    with priority.search():
        failing.set_exception(ValueError("lost"))
        await turns()
        assert caught == ["lost"]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert caught == ["lost", "cancelled"]


async def test_a_cancelled_step_gives_its_turn_to_the_next_one(priority: SearchPriority) -> None:
    done: list[str] = []
    with priority.search():
        first = asyncio.create_task(priority.pausing(steps(done, "a")))
        second = asyncio.create_task(priority.pausing(steps(done, "b")))
        await turns()
    first.cancel()
    assert await second == "b"
    assert done == ["b0", "b1", "b2"]


async def test_records_are_written_in_small_parts_during_searches(priority: SearchPriority) -> None:
    records = [Record(str(number), "tea", np.ones(2, dtype=np.float32), {}) for number in range(2 * SMALL_WRITE + 1)]
    store = Recorded()
    await store.create()
    await priority.write(store, records, lambda: True)
    with priority.search():
        await priority.write(store, records, lambda: True)
    assert store.writes == [2 * SMALL_WRITE + 1, SMALL_WRITE, SMALL_WRITE, 1]


async def test_records_are_written_in_small_parts_while_another_process_queries_the_store() -> None:
    records = [Record(str(number), "tea", np.ones(2, dtype=np.float32), {}) for number in range(SMALL_WRITE + 1)]
    queries, store = StoreQueries(), Recorded()
    priority = SearchPriority(queries)
    await store.create()
    await priority.write(store, records, lambda: True)
    request = httpx.Request("PUT", "http://store/collections/tea/documents")
    await queries.note(httpx.Response(200, headers={"Server-Timing": "query-age;dur=1.0"}, request=request))
    await priority.write(store, records, lambda: True)
    assert store.writes == [SMALL_WRITE + 1, SMALL_WRITE, 1]


async def test_after_a_write_during_searches_the_next_one_of_any_job_waits_for_a_multiple_of_its_time() -> None:
    records = [Record(str(number), "tea", np.ones(2, dtype=np.float32), {}) for number in range(SMALL_WRITE)]
    priority, store = SearchPriority(), Slow()
    await store.create()
    with priority.search():
        await asyncio.gather(*(priority.write(store, records, lambda: True) for _ in range(3)))
    assert len(store.times) == 3
    for (began, ended), (next_began, _) in pairwise(store.times):
        assert next_began - ended >= min(REST * (ended - began), MAX_REST_SECONDS) * 0.99


async def test_a_job_that_waits_for_its_turn_to_write_writes_nothing_once_it_has_lost_its_lease() -> None:
    records = [Record("a", "tea", np.ones(2, dtype=np.float32), {})]
    priority, store = SearchPriority(), Slow()
    await store.create()
    with priority.search():
        await priority.write(store, records, lambda: True)
        holds = True
        waiting = asyncio.create_task(priority.write(store, records, lambda: holds))
        await turns()
        holds = False
        with pytest.raises(LeaseLost):
            await waiting
    assert len(store.times) == 1


async def test_no_part_is_written_without_a_lease(priority: SearchPriority) -> None:
    records = [Record(str(number), "tea", np.ones(2, dtype=np.float32), {}) for number in range(2 * SMALL_WRITE)]
    store = Recorded()
    await store.create()
    with priority.search(), pytest.raises(LeaseLost):
        await priority.write(store, records, lambda: not store.writes)
    assert store.writes == [SMALL_WRITE]


@pytest.mark.parametrize("documents", [1, 3], ids=["a large document", "small documents"])
async def test_documents_are_ingested_beside_a_search_that_waits(
    client: httpx.AsyncClient, server: EmbeddingServer, documents: int
) -> None:
    base = await new_base(client, server, chunkStrategy="window", chunkSize=20, chunkOverlap=0)
    await base.completed("first", "Trains leave at noon.")
    server.held = "green tea"
    over = asyncio.Event()

    async def search() -> None:
        # The time of a search has a maximum, and another one follows.
        while not over.is_set():
            await client.post(f"{base.path}/query", json={"query": "green tea"})

    searching = asyncio.create_task(search())
    try:
        await until(lambda: server.waiting == 1)
        before = samples_of((await client.get("/metrics")).text)
        text = "".join(f"black tea {number:9} " for number in range(48 // documents))
        ingestions = [await base.ingest(f"doc {number}", f"{number:18} \n{text}") for number in range(documents)]
        ended = [await base.ended(each) for each in ingestions]
        assert {each["status"] for each in ended} == {"completed"}
        upserts = grown(before, samples_of((await client.get("/metrics")).text), UPSERTS)
        assert upserts >= sum(each["chunks"] for each in ended) / SMALL_WRITE >= 6
    finally:
        over.set()
        server.held = "\0"
        await searching
