"""Every source leads to a context within the deadline, and nothing is left behind: on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragstore_client._tasks import GRACE_SECONDS
from ragstore_client.context import AsyncContextBuilder, ChatContext, ContextSettings, Passage, Scope
from tests.client.context.sources import Behaviour, ScriptedSource, passage
from tests.client.context.virtual_clock import run_virtually

QUESTION = "How long is the warranty?"
OUTCOMES = [
    "passages",
    "nothing",
    "problem",
    "bug",
    "timeout",
    "hang",
    "cancels itself",
    "garbage",
    "stubborn",
]

behaviours = st.builds(
    Behaviour,
    outcome=st.sampled_from(OUTCOMES),
    delay=st.floats(0, 12),
    passages=st.lists(st.builds(passage, st.integers(0, 99), similarity=st.none() | st.floats(-1, 1)), max_size=5),
)


async def timed(builder: AsyncContextBuilder) -> tuple[ChatContext, float]:
    loop = asyncio.get_running_loop()
    started = loop.time()
    context = await builder.build(QUESTION)
    return context, loop.time() - started


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(st.lists(behaviours, min_size=1, max_size=5), st.floats(0.01, 10))
def test_there_is_a_context_within_the_deadline_whatever_happens(
    behaviours: list[Behaviour], timeout_seconds: float
) -> None:
    source = ScriptedSource(**{f"c{number}": behaviour for number, behaviour in enumerate(behaviours)})

    async def run() -> tuple[ChatContext, float]:
        builder = AsyncContextBuilder(
            source,
            settings=ContextSettings(timeout_seconds=timeout_seconds),
            scopes=[Scope(collections=[name]) for name in source.by_collection],
        )
        result = await timed(builder)
        await asyncio.sleep(0.05)  # a source that suppresses its cancellation ends after it
        return result

    context, seconds = run_virtually(run())
    assert seconds <= timeout_seconds + GRACE_SECONDS + 1e-6
    assert source.in_flight == 0
    assert context.used == bool(context.passages) == (context.reason is None)
    in_time = {name for name, behaviour in source.by_collection.items() if behaviour.delay < timeout_seconds - 0.001}
    failed = {failure.step for failure in context.failures}
    for name, behaviour in source.by_collection.items():
        if name in in_time:
            assert (name in failed) == (behaviour.outcome not in ("passages", "nothing"))
        elif behaviour.delay > timeout_seconds + 0.001:
            assert name in failed
    expected = {
        found.text
        for name in in_time - failed
        for found in source.by_collection[name].passages
        if source.by_collection[name].outcome == "passages" and (found.similarity is None or found.similarity >= 0.2)
    }
    assert expected <= {found.text for found in context.passages}


@settings(deadline=None)
@given(behaviours, st.floats(0, 8), st.integers(1, 4))
def test_cancellation_propagates_and_leaves_nothing_in_flight(
    behaviour: Behaviour, after_seconds: float, builds: int
) -> None:
    source = ScriptedSource(behaviour)

    async def run() -> None:
        builder = AsyncContextBuilder(source)
        tasks = [asyncio.create_task(builder.build(QUESTION)) for _ in range(builds)]
        await asyncio.sleep(after_seconds)
        done = [task.done() for task in tasks]
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for finished, result in zip(done, results, strict=True):
            assert isinstance(result, ChatContext if finished else asyncio.CancelledError)
        await asyncio.sleep(0.05)

    run_virtually(run())
    assert source.in_flight == 0


@pytest.mark.parametrize("outcome", [outcome for outcome in OUTCOMES if outcome not in ("passages", "nothing")])
def test_no_log_line_has_a_text_of_an_error(outcome: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(0):
        run_virtually(AsyncContextBuilder(ScriptedSource(Behaviour(outcome))).build(QUESTION))  # type: ignore[arg-type]
    assert "secret" not in caplog.text
    assert QUESTION not in caplog.text


class ScriptedReranker:
    """A reranker that reverses the passages, or fails."""

    def __init__(self, outcome: str) -> None:
        self.outcome = outcome

    async def rerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        match self.outcome:
            case "bug":
                raise ZeroDivisionError("secret text of a bug")
            case "cancels itself":
                raise asyncio.CancelledError
            case "stubborn":
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    await asyncio.sleep(0.01)
            case "hang":
                await asyncio.sleep(3600)
        return [*reversed(passages)]


@pytest.mark.parametrize(
    ("outcome", "failure"),
    [
        ("works", None),
        ("bug", "failed"),
        ("cancels itself", "failed"),
        ("hang", "timeout"),
        ("stubborn", "timeout"),
    ],
)
def test_a_reranker_shares_the_deadline_and_a_failure_orders_by_similarity(outcome: str, failure: str | None) -> None:
    source = ScriptedSource(Behaviour(delay=4, passages=[passage(1, similarity=0.5), passage(2), passage(3)]))
    builder = AsyncContextBuilder(source, reranker=ScriptedReranker(outcome))
    context, seconds = run_virtually(timed(builder))
    assert seconds <= 6 + GRACE_SECONDS + 1e-6
    assert source.searches[0].top_k == 120
    assert [found.id for found in context.passages] == (["p2", "p3", "p1"] if failure else ["p3", "p2", "p1"])
    assert [(each.step, each.reason) for each in context.failures] == ([("rerank", failure)] if failure else [])


def test_cancellation_during_reranking_propagates() -> None:
    async def run() -> None:
        task = asyncio.create_task(
            AsyncContextBuilder(ScriptedSource(), reranker=ScriptedReranker("hang")).build(QUESTION)
        )
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtually(run())
