"""The cache: one retrieval for equal questions, bounds, expiry, invalidation, and isolation of sessions."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstore_client.context import (
    AsyncContextBuilder,
    ChatContext,
    ContextBuilder,
    ContextCache,
    ContextSettings,
    session_scopes,
)
from ragstore_client.context._cache import CacheKey
from tests.client.context.sources import Behaviour, ScriptedSource, passage
from tests.client.context.virtual_clock import run_virtually
from tests.support.clock import Clock

QUESTION = "How long is the warranty?"


def key(name: str, session_id: str | None = None) -> CacheKey:
    return CacheKey(session_id, name, name, ())


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


def test_a_caller_that_repeats_a_failed_question_does_not_get_the_same_failure() -> None:
    source = ScriptedSource(Behaviour("problem", delay=1))

    async def run() -> list[bool]:
        builder = AsyncContextBuilder(source)

        async def twice() -> bool:
            await builder.build(QUESTION)
            source.default = Behaviour(passages=[passage(1)])
            return (await builder.build(QUESTION)).used

        return list(await asyncio.gather(twice(), twice(), twice()))

    assert run_virtually(run()) == [True, True, True]
    assert len(source.searches) == 2


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


@settings(deadline=None)
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
