"""The cache: one retrieval for equal questions, bounds, expiry, invalidation, and isolation of sessions."""

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
    ContextSettings,
    Passage,
    Scope,
    session_scopes,
)
from ragstore_client.context._cache import CacheKey
from tests.client.context.sources import Behaviour, FilteringSource, ScriptedSource, Search, passage
from tests.client.context.virtual_clock import run_virtually

QUESTION = "How long is the warranty?"


def key(name: str, session_id: str | None = None) -> CacheKey:
    return CacheKey(session_id, name, name, ())


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_thousand_equal_questions_are_one_retrieval() -> None:
    source = ScriptedSource(Behaviour(delay=1, passages=[passage(1)]))

    async def run() -> list[ChatContext]:
        builder = AsyncContextBuilder(source)
        return await asyncio.gather(*(builder.build(QUESTION, session_id="s") for _ in range(1000)))

    contexts = run_virtually(run())
    assert len(source.searches) == 1
    assert all(context.used and not context.cached for context in contexts)


def test_a_repeated_question_is_cached_until_the_ttl_has_passed() -> None:
    source, clock = ScriptedSource(), Clock()

    async def run() -> list[bool]:
        builder = AsyncContextBuilder(source, cache=ContextCache(clock=clock))
        cached = []
        for clock.now in (0.0, 299.9, 300.0, 301.0):
            cached.append((await builder.build(QUESTION)).cached)
        return cached

    assert run_virtually(run()) == [False, True, False, True]
    assert len(source.searches) == 2


def test_a_cached_context_is_the_same_but_for_its_timings() -> None:
    async def run() -> tuple[ChatContext, ChatContext]:
        builder = AsyncContextBuilder(ScriptedSource())
        return await builder.build(QUESTION), await builder.build(QUESTION)

    first, second = run_virtually(run())
    assert (first.passages, first.tokens, first.text()) == (second.passages, second.tokens, second.text())
    assert (second.cached, second.timings.search_seconds) == (True, 0)


def test_that_nothing_was_found_is_cached_as_well() -> None:
    source = ScriptedSource(Behaviour("nothing"))

    async def run() -> bool:
        builder = AsyncContextBuilder(source)
        await builder.build(QUESTION)
        return (await builder.build(QUESTION)).cached

    assert run_virtually(run())


@pytest.mark.parametrize("outcome", ["problem", "bug", "timeout", "hang", "garbage"])
@pytest.mark.parametrize("partial", [True, False])
def test_a_failure_a_timeout_and_a_partial_result_are_not_cached(outcome: str, partial: bool) -> None:
    good = Behaviour(passages=[passage(1)])
    source = ScriptedSource(a=Behaviour(outcome), b=good if partial else Behaviour(outcome))  # type: ignore[arg-type]

    async def run() -> tuple[ChatContext, ChatContext]:
        builder = AsyncContextBuilder(source, scopes=[*session_scopes(["a"]), *session_scopes(["b"])])
        failed = await builder.build(QUESTION, session_id="s")
        source.by_collection = {"a": good, "b": good}
        return failed, await builder.build(QUESTION, session_id="s")

    failed, after = run_virtually(run())
    assert failed.used is partial
    assert (after.used, after.cached, after.failures) == (True, False, [])


@pytest.mark.parametrize(
    "other",
    [
        {"question": "How long is the guarantee?"},
        {"session_id": "other"},
        {"session_id": None},
        {"topic": "warranty"},
        {"settings": ContextSettings(top_k_max=3)},
        {"scopes": session_scopes(["b"])},
    ],
)
def test_a_retrieval_depends_on_question_session_topic_scopes_and_settings(other: dict[str, object]) -> None:
    source = ScriptedSource()

    async def run() -> bool:
        builder = AsyncContextBuilder(source, scopes=session_scopes(["a"]))
        await builder.build(QUESTION, session_id="s")
        return (await builder.build(**{"question": QUESTION, "session_id": "s", **other})).cached  # type: ignore[arg-type]

    assert not run_virtually(run())


def test_builders_that_share_a_cache_do_not_share_results() -> None:
    async def run() -> list[str]:
        cache: ContextCache = ContextCache()  # type: ignore[type-arg]  # the builders' own
        first, second = (
            AsyncContextBuilder(ScriptedSource(Behaviour(passages=[passage(number)])), cache=cache) for number in (1, 2)
        )
        return [(await builder.build(QUESTION)).passages[0].id for builder in (first, second)]

    assert run_virtually(run()) == ["p1", "p2"]


def test_a_ttl_of_0_disables_the_cache() -> None:
    source = ScriptedSource()

    async def run() -> None:
        builder = AsyncContextBuilder(source, settings=ContextSettings(cache_ttl_seconds=0))
        await builder.build(QUESTION)
        await builder.build(QUESTION)

    run_virtually(run())
    assert len(source.searches) == 2


def test_invalidation_of_a_session_leaves_the_others() -> None:
    async def run() -> list[bool]:
        builder = AsyncContextBuilder(ScriptedSource())
        for session_id in ("a", "b"):
            await builder.build(QUESTION, session_id=session_id)
        builder.invalidate(session_id="a")
        return [(await builder.build(QUESTION, session_id=session_id)).cached for session_id in ("a", "b")]

    assert run_virtually(run()) == [False, True]


def test_the_synchronous_builder_invalidates_too() -> None:
    builder = ContextBuilder(ScriptedSource())
    for session_id in ("a", "b"):
        builder.build(QUESTION, session_id=session_id)
    builder.invalidate(session_id="a")
    assert [builder.build(QUESTION, session_id=session_id).cached for session_id in ("a", "b")] == [False, True]


def test_invalidation_of_everything() -> None:
    async def run() -> bool:
        builder = AsyncContextBuilder(ScriptedSource())
        await builder.build(QUESTION, session_id="a")
        builder.invalidate()
        return (await builder.build(QUESTION, session_id="a")).cached

    assert not run_virtually(run())


@pytest.mark.parametrize("concurrently", [True, False])
def test_a_retrieval_in_flight_while_its_session_is_invalidated_is_not_cached(concurrently: bool) -> None:
    source = ScriptedSource(Behaviour(delay=1, passages=[passage(1)]))

    async def run() -> list[ChatContext]:
        builder = AsyncContextBuilder(source)
        before = asyncio.create_task(builder.build(QUESTION, session_id="a"))
        await asyncio.sleep(0.5)
        builder.invalidate(session_id="a")
        source.default = Behaviour(delay=1, passages=[passage(2)])
        if not concurrently:
            await before
        after = await builder.build(QUESTION, session_id="a")
        return [await before, after, await builder.build(QUESTION, session_id="a")]

    contexts = run_virtually(run())
    assert [context.passages[0].id for context in contexts] == ["p1", "p2", "p2"]
    assert [context.cached for context in contexts] == [False, False, True]


def test_a_cancelled_caller_does_not_cancel_the_retrieval_of_the_others() -> None:
    source = ScriptedSource(Behaviour(delay=1, passages=[passage(1)]))

    async def run() -> ChatContext:
        builder = AsyncContextBuilder(source)
        first, second = (asyncio.create_task(builder.build(QUESTION)) for _ in range(2))
        await asyncio.sleep(0.5)
        first.cancel()
        return await second

    assert run_virtually(run()).used
    assert len(source.searches) == 1


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


def test_the_length_of_a_question_counts_towards_the_bound_of_the_cache() -> None:
    async def run() -> list[int]:
        cache: ContextCache = ContextCache(max_bytes=1_000_000)  # type: ignore[type-arg]  # the builder's own
        builder = AsyncContextBuilder(ScriptedSource(), cache=cache)
        sizes = []
        for number in range(20):
            await builder.build(f"{number} " * 50_000, topic="Long. " * 20_000)
            sizes.append(len(cache))
        await builder.build("x" * 2_000_000)
        return [*sizes, len(cache)]

    assert max(run_virtually(run())) <= 5


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


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["build", "cancel", "invalidate"]), st.sampled_from(["a", "b"]), st.floats(0.1, 3)),
        max_size=25,
    )
)
def test_whoever_is_cancelled_the_others_get_a_context_and_none_that_is_out_of_date(
    steps: list[tuple[str, str, float]],
) -> None:
    version = {"a": 0, "b": 0}

    class Versioned(ScriptedSource):
        async def behave(self, search: Search) -> list[Passage]:
            assert isinstance(search.where, dict)
            session = str(search.where["session_id"])
            read = version[session]  # the store answers with what it has at the beginning
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


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 400), st.integers(0, 50)), max_size=60),
    st.integers(0, 5),
    st.integers(0, 600),
)
def test_the_cache_never_exceeds_its_bounds(
    steps: list[tuple[int, int, int]], max_entries: int, max_bytes: int
) -> None:
    clock = Clock()
    cache: ContextCache[str] = ContextCache(max_entries=max_entries, max_bytes=max_bytes, clock=clock)
    stored: dict[CacheKey, tuple[str, float]] = {}
    for number, (name, size, seconds) in enumerate(steps):
        clock.now += seconds
        cache.put(key(str(name)), str(number), size_bytes=size, ttl_seconds=100)
        stored[key(str(name))] = (str(number), clock.now + 100)
        assert len(cache) <= max_entries
        assert 0 <= cache.size_bytes <= max_bytes
        for known, (value, expires) in stored.items():
            assert cache.get(known) in ((None, value) if clock.now < expires else (None,))
    cache.invalidate(lambda _: True)
    assert (len(cache), cache.size_bytes) == (0, 0)


def test_the_least_recently_used_entry_is_removed_after_the_expired_ones() -> None:
    clock = Clock()
    cache: ContextCache[str] = ContextCache(max_entries=2, clock=clock)
    cache.put(key("brief"), "a", size_bytes=1, ttl_seconds=1)
    cache.put(key("old"), "b", size_bytes=1, ttl_seconds=100)
    clock.now = 2
    cache.put(key("new"), "c", size_bytes=1, ttl_seconds=100)
    assert [cache.get(key(name)) for name in ("brief", "old", "new")] == [None, "b", "c"]
    assert cache.get(key("old")) == "b"
    cache.put(key("newest"), "d", size_bytes=1, ttl_seconds=100)
    assert [cache.get(key(name)) for name in ("old", "new", "newest")] == ["b", None, "d"]


SESSIONS = ["s1", "s2", "s3", "GLOBAL", "$ne", "{session_id}", '{"$ne": ""}', "s1 ", "\uff531"]


@settings(max_examples=60, deadline=None)
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
