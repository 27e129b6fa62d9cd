"""Reranking by TEI and by Cohere's protocol, against servers on a socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence

import pytest

from ragstore_client import (
    CallTimeout,
    ConnectFailed,
    InvalidConfiguration,
    ProblemError,
    RagstoreError,
    UnexpectedResponse,
)
from ragstore_client.context import (
    CohereReranker,
    ContextBuilder,
    ContextSettings,
    Passage,
    RerankFunction,
    TeiReranker,
)
from tests.client.context.sources import Behaviour, ScriptedSource, passage
from tests.client.fake_servers import LocalServer, Request, Response, scripted_server

GIVEN = [Passage(id=word, text=word * n, similarity=0.5) for n, word in enumerate("abcdefg", 1)]


def respond(request: Request) -> Response:
    """A server that finds the longest texts the most relevant, and refuses more than four."""
    body = json.loads(request.body)
    texts = body.get("texts", body.get("documents"))
    if len(texts) > 4:
        return Response(413, {"error": f"batch size {len(texts)} > maximum allowed batch size 4: {texts}"})
    ranked = sorted(enumerate(texts), key=lambda item: -len(item[1]))
    if request.path == "/rerank":
        return Response(200, [{"index": index, "score": len(text) - 4.5} for index, text in ranked])
    results = [{"index": index, "relevance_score": len(text) / 10} for index, text in ranked]
    return Response(200, {"id": "x", "results": results[: body["top_n"]], "meta": {}})


async def reverse(_: str, passages: Sequence[Passage]) -> list[Passage]:
    return [*reversed(passages)]


class Reverse:
    async def __call__(self, _: str, passages: Sequence[Passage]) -> list[Passage]:
        return [*reversed(passages)]


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer(respond) as running:
        yield running


def ids(passages: list[Passage]) -> str:
    return "".join(p.id for p in passages)


async def test_tei_orders_passages_of_all_batches_by_raw_scores(server: LocalServer) -> None:
    reranker = TeiReranker(server.url, api_key="secret", max_batch=3)
    assert ids(await reranker.rerank("q", GIVEN)) == "gfedcba"
    assert sorted(len(json.loads(request.body)["texts"]) for request in server.requests) == [1, 3, 3]
    [first, *_] = server.requests
    assert first.headers["authorization"] == "Bearer secret"
    assert json.loads(first.body) | {"texts": []} == {"query": "q", "texts": [], "raw_scores": True, "truncate": True}


async def test_cohere_orders_passages_and_names_the_model(server: LocalServer) -> None:
    reranker = CohereReranker(server.url, model="rerank-v3.5")
    assert ids(await reranker.rerank("q", GIVEN[:4], top_k=2)) == "dc"
    [request] = server.requests
    assert request.path == "/v2/rerank"
    assert json.loads(request.body) == {
        "model": "rerank-v3.5",
        "query": "q",
        "documents": ["a", "bb", "ccc", "dddd"],
        "top_n": 4,
    }


async def test_both_ways_of_calling_give_the_same_order(server: LocalServer) -> None:
    for reranker in (TeiReranker(server.url, max_batch=2), CohereReranker(server.url, model="m", max_batch=4)):
        assert await reranker.rerank("q", GIVEN, top_k=5) == reranker.rerank_sync("q", GIVEN, top_k=5)


def test_the_batches_of_a_synchronous_caller_are_in_flight_together() -> None:
    all_there = threading.Barrier(4)

    def wait(_: Request) -> Response:
        all_there.wait(30)
        return Response(200, [{"index": 0, "score": 1.0}])

    with LocalServer(wait) as server:
        assert ids(TeiReranker(server.url, max_batch=1, timeout=30).rerank_sync("q", GIVEN[:4])) == "abcd"


@pytest.mark.parametrize(
    "reranker", [lambda query, passages: passages[::-1], reverse, Reverse()], ids=["function", "coroutine", "object"]
)
def test_a_function_is_a_reranker(reranker: RerankFunction) -> None:
    builder = ContextBuilder(ScriptedSource(Behaviour(passages=[passage(1), passage(2)])), reranker=reranker)
    context = builder.build("How long is the warranty?")
    assert ([found.id for found in context.passages], context.failures) == (["p2", "p1"], [])


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (["a text"], "TypeError"),
        (None, "TypeError"),
        ("text", "TypeError"),
        (ZeroDivisionError("secret"), "ZeroDivisionError"),
    ],
)
@pytest.mark.parametrize("kind", ["function", "method"])
def test_a_reranker_that_returns_no_passages_leaves_the_order_by_similarity(
    kind: str, result: object, error: str
) -> None:
    def rank(*_: object) -> list[Passage]:
        if isinstance(result, Exception):
            raise result
        return result  # type: ignore[return-value]  # what this is about

    reranker = rank if kind == "function" else type("Ranker", (), {"rerank": rank})()
    source = ScriptedSource(Behaviour(passages=[passage(1, similarity=0.5), passage(2)]))
    context = ContextBuilder(source, reranker=reranker).build("How long is the warranty?")
    assert [found.id for found in context.passages] == ["p2", "p1"]
    assert [(failure.step, failure.error) for failure in context.failures] == [("rerank", error)]


def test_a_passage_that_a_reranker_repeats_is_in_the_context_once() -> None:
    source = ScriptedSource(Behaviour(passages=[passage(1), passage(2)]))
    builder = ContextBuilder(source, reranker=lambda _, passages: [*passages, *passages])
    assert [found.id for found in builder.build("How long is the warranty?").passages] == ["p1", "p2"]


def test_a_function_that_blocks_leaves_the_order_by_similarity_within_the_time_limit() -> None:
    release = threading.Event()

    def block(_: str, passages: Sequence[Passage]) -> Sequence[Passage]:
        release.wait(30)
        return passages

    source = ScriptedSource(Behaviour(passages=[passage(1, similarity=0.5), passage(2)]))
    builder = ContextBuilder(source, reranker=block, settings=ContextSettings(timeout_seconds=0.5))
    context = builder.build("How long is the warranty?")
    release.set()
    assert [found.id for found in context.passages] == ["p2", "p1"]
    assert [(failure.step, failure.reason) for failure in context.failures] == [("rerank", "timeout")]


def test_what_cannot_rerank_is_a_configuration_error() -> None:
    with pytest.raises(InvalidConfiguration, match="method rerank"):
        ContextBuilder(ScriptedSource(), reranker=7)  # type: ignore[arg-type]  # what this is about


async def test_without_passages_nothing_is_sent(server: LocalServer) -> None:
    reranker = TeiReranker(server.url)
    assert await reranker.rerank("q", []) == reranker.rerank_sync("q", []) == []
    assert server.requests == []


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (Response(200, [{"index": 0, "score": 1.0}]), UnexpectedResponse),
        (Response(200, [{"index": 0, "score": 1.0}, {"index": 0, "score": 2.0}]), UnexpectedResponse),
        (Response(200, [{"index": 0, "score": 1.0}, {"index": 2, "score": 2.0}]), UnexpectedResponse),
        (Response(200, b"<html>"), UnexpectedResponse),
        (Response(424, {"error": "canary is no reranker", "error_type": "backend"}), ProblemError),
        (Response(200, [], delay=1.0), CallTimeout),
    ],
)
async def test_unusable_responses_are_errors_without_the_texts(response: Response, error: type[RagstoreError]) -> None:
    passages = [Passage(id="a", text="canary"), Passage(id="b", text="canary")]
    with scripted_server(response) as server:
        reranker = TeiReranker(server.url, timeout=0.3)
        with pytest.raises(error) as synchronous:
            reranker.rerank_sync("canary", passages)
        with pytest.raises(error) as asynchronous:
            await reranker.rerank("canary", passages)
    assert "canary" not in f"{synchronous.value} {asynchronous.value}"


async def test_a_failing_batch_fails_the_call_with_its_own_error(server: LocalServer) -> None:
    with pytest.raises(ProblemError) as raised:
        await TeiReranker(server.url, max_batch=5).rerank("q", GIVEN)
    assert raised.value.status == 413


async def test_an_unreachable_server_and_a_bad_url_are_errors() -> None:
    with pytest.raises(ConnectFailed):
        await TeiReranker("http://127.0.0.1:9", timeout=2).rerank("q", GIVEN)
    with pytest.raises(InvalidConfiguration):
        TeiReranker("ftp://x")
