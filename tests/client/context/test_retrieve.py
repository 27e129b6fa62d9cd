"""The step that searches scopes, alone: within a time limit, and one bad passage costs only itself."""

from __future__ import annotations

import asyncio
import math

import httpx
import pytest

from ragstore_client import (
    CallTimeout,
    ConnectFailed,
    EmbeddingFailed,
    EmbeddingTimeout,
    GatewayTimeout,
    ServerError,
)
from ragstore_client.context import (
    AsyncContextBuilder,
    ChatContext,
    ContextSettings,
    Passage,
    Retrieval,
    Scope,
    StepFailure,
    retrieve,
    retrieve_sync,
    session_scopes,
)
from tests.client.context.sources import Behaviour, FilteringSource, ScriptedSource, Search, passage
from tests.client.context.virtual_clock import run_virtually

QUESTION = "How long is the warranty?"


def ids(found: Retrieval) -> list[str]:
    return [each.id for each in found.passages]


def test_the_scopes_of_a_session_are_searched() -> None:
    documents = [
        Passage(id=session, text=session, metadata={"session_id": session}) for session in ("s-1", "s-2", "GLOBAL", "*")
    ]
    source = FilteringSource(documents)
    assert ids(run_virtually(retrieve(source, QUESTION, session_scopes(), session_id="s-1"))) == ["s-1", "GLOBAL"]
    assert ids(run_virtually(retrieve(source, QUESTION, session_scopes(), global_session_id="*"))) == ["*"]
    assert ids(run_virtually(retrieve(source, QUESTION, top_k=3))) == ["s-1", "s-2", "GLOBAL"]


def test_the_results_in_time_are_returned_with_the_failures_of_the_others() -> None:
    source = ScriptedSource(a=Behaviour(delay=1, passages=[passage(1)]), b=Behaviour("hang"), c=Behaviour("bug"))
    scopes = [Scope(collections=[name]) for name in "abc"]
    found = run_virtually(retrieve(source, QUESTION, scopes, timeout_seconds=2))
    assert ids(found) == ["p1"]
    assert found.failures == [StepFailure("b", "timeout"), StepFailure("c", "failed", "ZeroDivisionError")]


def caused(error: Exception, cause: Exception) -> Exception:
    """An error with a cause."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), "timeout"),
        (EmbeddingTimeout("no vectors within 2 s"), "timeout"),
        (CallTimeout("no complete response within 2 s"), "timeout"),
        (GatewayTimeout(504), "timeout"),
        # As embedders of others raise them.
        (httpx.ReadTimeout("timed out"), "timeout"),
        (caused(RuntimeError("request failed"), httpx.ReadTimeout("timed out")), "timeout"),
        (caused(EmbeddingFailed("no vector"), TimeoutError()), "timeout"),
        # All of the time went into the connection.
        (caused(ConnectFailed("no connection within 2 s"), httpx.ConnectTimeout("")), "timeout"),
        (caused(ConnectFailed("connection refused"), httpx.ConnectError("")), "failed"),
        (caused(EmbeddingFailed("HTTP 500"), ServerError(500)), "failed"),
    ],
)
def test_the_reason_of_a_time_limit_within_the_search_is_timeout(error: Exception, reason: str) -> None:
    class Failing:
        async def search(self, *_: object, **__: object) -> list[Passage]:
            raise error

    async def build() -> ChatContext:
        return await AsyncContextBuilder(Failing()).build(QUESTION)

    context = run_virtually(build())
    assert (context.used, context.reason) == (False, reason)


@pytest.mark.parametrize("seconds", [0.0, -5.0, 5e-324])
def test_a_deadline_that_has_passed_ends_a_search_immediately(seconds: float) -> None:
    async def run() -> tuple[Retrieval, float]:
        started = asyncio.get_running_loop().time()
        found = await retrieve(ScriptedSource(Behaviour("hang")), QUESTION, timeout_seconds=seconds)
        return found, asyncio.get_running_loop().time() - started

    found, waited = run_virtually(run())
    assert found == Retrieval([], [StepFailure("all", "timeout")])
    assert waited <= 0.001


def test_a_service_that_times_out_is_a_timeout() -> None:
    class Slow(ScriptedSource):
        async def behave(self, search: Search) -> list[Passage]:
            raise GatewayTimeout(504, "Gateway timeout", "the store did not respond in time")

    found = run_virtually(retrieve(Slow(), QUESTION))
    assert found.failures == [StepFailure("all", "timeout", "GatewayTimeout (504)")]


def test_synchronous_callers_get_the_same() -> None:
    source = ScriptedSource(Behaviour(passages=[passage(1), passage(2)]), bad=Behaviour("bug"))
    scopes = [Scope(), Scope(collections=["bad"])]
    assert ids(retrieve_sync(source, QUESTION, scopes)) == ids(run_virtually(retrieve(source, QUESTION, scopes)))
    assert retrieve_sync(source, QUESTION, scopes).failures == [StepFailure("bad", "failed", "ZeroDivisionError")]


def malformed(**members: object) -> Passage:
    return Passage(**{"id": "bad", "text": "Bad.", "similarity": 0.9, **members})  # type: ignore[arg-type]  # wrong types


@pytest.mark.parametrize(
    "bad",
    [
        malformed(id=None),
        malformed(id=7),
        malformed(text=None),
        malformed(text=b"Bad."),
        malformed(metadata=None),
        malformed(metadata=["file_name"]),
        malformed(similarity="0.9"),
        malformed(similarity=10**400),
        malformed(similarity=1j),
        malformed(collection=5),
        "no passage",
        None,
    ],
    ids=range(12),
)
@pytest.mark.parametrize("style", ["sections", "numbered", "headings", "archives"])
def test_a_malformed_passage_is_left_out_and_reported(bad: Passage, style: str) -> None:
    source = ScriptedSource(Behaviour(passages=[bad, passage(1)]))
    builder = AsyncContextBuilder(source, style=style, settings=ContextSettings(debug=True))  # type: ignore[arg-type]
    context = run_virtually(builder.build(QUESTION))
    assert [found.id for found in context.passages] == ["p1"]
    assert context.failures == [StepFailure("all", "failed", "TypeError")]
    assert "p1" in context.debug_line()
    assert "number 1" in context.text()


class Fraction32(float):
    """A number of another library, such as numpy's."""


@pytest.mark.parametrize(
    ("similarity", "found"),
    [(math.nan, None), (math.inf, math.inf), (1, 1.0), (Fraction32(0.5), 0.5), (-math.inf, None)],
)
def test_a_similarity_is_a_float_in_the_context_and_nan_is_below_the_threshold(
    similarity: float, found: float | None
) -> None:
    source = ScriptedSource(Behaviour(passages=[passage(1, similarity=similarity)]))
    context = run_virtually(AsyncContextBuilder(source, settings=ContextSettings(debug=True)).build(QUESTION))
    assert [type(each.similarity) for each in context.passages] == ([] if found is None else [float])
    assert [each.similarity for each in context.passages] == ([] if found is None else [found])
    assert context.debug_line().endswith("\n\n")
