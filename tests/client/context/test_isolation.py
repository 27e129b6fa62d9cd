"""Isolation: of sessions, callers, builders, threads and event loops that share a cache or a builder."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstore_client.context import (
    AsyncContextBuilder,
    ChatContext,
    ContextBuilder,
    ContextCache,
    Passage,
    Scope,
    session_scopes,
)
from ragstore_client.context._cache import CacheKey
from tests.client.context.sources import Behaviour, FilteringSource, ScriptedSource, Search, passage
from tests.client.context.virtual_clock import run_virtually

QUESTION = "How long is the warranty?"


def key(name: str) -> CacheKey:
    return CacheKey(None, name, name, ())


@pytest.mark.parametrize(
    ("headers", "shared"),
    [
        ({"Authorization": "Bearer b"}, False),
        ({"x-tenant": "b"}, False),
        ({}, False),
        ({"authorization": "Bearer a", "x-request-id": "r-2", "traceparent": "t"}, True),
    ],
)
@pytest.mark.parametrize("concurrently", [True, False])
def test_callers_with_other_credentials_share_no_retrieval(
    headers: dict[str, str], shared: bool, concurrently: bool
) -> None:
    source = ScriptedSource(Behaviour(delay=1, passages=[passage(1)]))

    async def run() -> None:
        builder = AsyncContextBuilder(source)
        first = asyncio.create_task(builder.build(QUESTION, headers={"authorization": "Bearer a", "X-Request-ID": "r"}))
        await (asyncio.sleep(0.5) if concurrently else first)
        await builder.build(QUESTION, headers=headers)
        await first

    run_virtually(run())
    assert len(source.searches) == (1 if shared else 2)


def test_a_caller_that_changes_its_context_changes_no_other() -> None:
    found = passage(1)
    found.metadata["pages"] = [1, 2]
    source = ScriptedSource(Behaviour(passages=[found]))

    async def run() -> ChatContext:
        builder = AsyncContextBuilder(source)
        for _ in range(2):
            context = await builder.build(QUESTION)
            context.passages[0].metadata["file_name"] = "forged.pdf"
            context.passages[0].metadata["pages"].append(3)  # type: ignore[union-attr]  # it is a list
            context.passages.clear()
            context.failures.clear()
        return await builder.build(QUESTION)

    expected = {"file_name": "manual.pdf", "chunk_index": 1, "pages": [1, 2]}
    assert [each.metadata for each in run_virtually(run()).passages] == [expected]
    assert found.metadata == expected


def test_threads_that_share_a_builder_share_its_retrievals() -> None:
    source = ScriptedSource()
    builder = ContextBuilder(source)
    with ThreadPoolExecutor(8) as threads:
        contexts = list(threads.map(lambda _: builder.build(QUESTION), range(40)))
    assert {context.passages[0].id for context in contexts} == {"p1"}
    assert len(source.searches) == 1


def test_builders_that_share_a_cache_do_not_share_results() -> None:
    async def run() -> list[str]:
        cache: ContextCache = ContextCache()  # type: ignore[type-arg]  # the builders' own
        first, second = (
            AsyncContextBuilder(ScriptedSource(Behaviour(passages=[passage(number)])), cache=cache) for number in (1, 2)
        )
        return [(await builder.build(QUESTION)).passages[0].id for builder in (first, second)]

    assert run_virtually(run()) == ["p1", "p2"]


@pytest.mark.parametrize("direct", [True, False])
def test_an_invalidation_reaches_the_retrievals_in_flight_of_all_builders_of_a_cache(direct: bool) -> None:
    async def run() -> tuple[bool, bool]:
        cache: ContextCache = ContextCache()  # type: ignore[type-arg]  # the builders' own
        source = ScriptedSource(Behaviour(delay=1, passages=[passage(1)]))
        one, other = (AsyncContextBuilder(source, cache=cache) for _ in range(2))
        in_flight = asyncio.create_task(one.build(QUESTION, session_id="a"))
        await asyncio.sleep(0.5)
        if direct:
            cache.invalidate(lambda key: key.session_id == "a")
        else:
            other.invalidate(session_id="a")
        return (await in_flight).used, (await one.build(QUESTION, session_id="a")).cached

    assert run_virtually(run()) == (True, False)


def test_threads_may_share_a_cache() -> None:
    cache: ContextCache[int] = ContextCache(max_entries=30)

    def work(number: int) -> None:
        for turn in range(3_000):
            name = key(str(turn * (number + 1) % 50))
            cache.put(name, turn, size_bytes=1, ttl_seconds=100)
            cache.get(name)
            if turn % 10 == 0:
                cache.invalidate(lambda known: known.question < "3")

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for done in [threads.submit(work, number) for number in range(4)]:
                done.result()
    finally:
        sys.setswitchinterval(interval)
    assert cache.size_bytes == len(cache) <= 30


def test_a_builder_may_be_used_in_several_event_loops() -> None:
    together = threading.Barrier(4)
    both: list[Search] = []

    class Waiting(ScriptedSource):
        async def behave(self, search: Search) -> list[Passage]:
            both.append(search)
            await asyncio.to_thread(together.wait, 30)  # four retrievals are in flight, one for each loop
            return [passage(1)]

    builder = AsyncContextBuilder(Waiting())
    with ThreadPoolExecutor(4) as threads:
        contexts = [threads.submit(asyncio.run, builder.build(QUESTION)) for _ in range(4)]
        assert [context.result().used for context in contexts] == [True] * 4
    assert len(both) == 4


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["build", "cancel", "invalidate"]), st.sampled_from(["a", "b"]), st.floats(0.1, 3)),
        max_size=25,
    )
)
def test_a_cancelled_caller_affects_no_other_and_no_context_is_out_of_date(
    steps: list[tuple[str, str, float]],
) -> None:
    version = {"a": 0, "b": 0}

    class Versioned(ScriptedSource):
        async def behave(self, search: Search) -> list[Passage]:
            assert isinstance(search.where, dict)
            session = str(search.where["session_id"])
            read = version[session]  # a later write is not in the result
            self.in_flight += 1
            try:
                await asyncio.sleep(1)
            finally:
                self.in_flight -= 1
            return [passage(read, text=session)]

    source = Versioned()

    async def run() -> None:
        builder = AsyncContextBuilder(source, scopes=[Scope(where={"session_id": "{session_id}"})])
        waiting: list[tuple[str, int, asyncio.Task[ChatContext]]] = []
        cancelled: set[int] = set()
        for action, session, after in steps:
            await asyncio.sleep(after / 4)
            if action == "build":
                task = asyncio.create_task(builder.build(QUESTION, session_id=session))
                waiting.append((session, version[session], task))
            elif action == "invalidate":
                version[session] += 1
                builder.invalidate(session_id=session)
            elif waiting and not waiting[-1][2].done():
                cancelled.add(len(waiting) - 1)
                waiting[-1][2].cancel()
        results = await asyncio.gather(*(task for _, _, task in waiting), return_exceptions=True)
        for number, ((session, at_least, _), result) in enumerate(zip(waiting, results, strict=True)):
            if number in cancelled:
                assert isinstance(result, asyncio.CancelledError)
                continue
            assert isinstance(result, ChatContext)
            assert [found.text for found in result.passages] == [session]
            assert int(result.passages[0].id[1:]) >= at_least

    run_virtually(run())
    assert source.in_flight == 0


SESSIONS = ["s1", "s2", "s3", "GLOBAL", "$ne", "{session_id}", '{"$ne": ""}', "s1 ", "\uff531"]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(SESSIONS), st.sampled_from([QUESTION, "Another question?"]), st.floats(0, 3)),
        min_size=1,
        max_size=30,
    ),
    st.randoms(use_true_random=False),
)
def test_no_session_ever_receives_another_one_s_documents(
    asked: list[tuple[str, str, float]], chance: random.Random
) -> None:
    documents = [
        Passage(id=f"{number}", text=f"Text {number}.", similarity=0.9, metadata={"session_id": session})
        for number, session in enumerate(SESSIONS * 2)
    ]
    source = FilteringSource(documents, delay=lambda: chance.uniform(0, 7))

    async def run() -> list[ChatContext]:
        builder = AsyncContextBuilder(source, scopes=session_scopes())

        async def one(session: str, question: str, after: float) -> ChatContext:
            await asyncio.sleep(after)
            if chance.random() < 0.2:
                builder.invalidate(session_id=session)
            return await builder.build(question, session_id=session)

        return await asyncio.gather(*(one(*each) for each in asked))

    for (session, _, _), context in zip(asked, run_virtually(run()), strict=True):
        owners = {found.metadata["session_id"] for found in context.passages}
        assert owners in ({session, "GLOBAL"}, set())
        assert owners or context.reason == "timeout"
