"""Embedding queries, over HTTP, with the faults of an endpoint."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from ragstore_client import (
    ConnectFailed,
    EmbeddingCache,
    EmbeddingFailed,
    EmbeddingsClient,
    EmbeddingTimeout,
    InvalidConfiguration,
    PayloadTooLarge,
    RagArchiveConfig,
    RagConfig,
    Retriever,
)
from tests.client.corpus import CANARY_KEY, CANARY_QUERY
from tests.client.fake_servers import FakeEmbeddings, LocalServer, Response, scripted_server, vector_of
from tests.support.servers import free_port

MODEL = "jinaai/jina-embeddings-v2-base-de"
EmbeddingRequests = Callable[[], list[dict[str, object]]]


@pytest.fixture
def embedder(embeddings: tuple[FakeEmbeddings, LocalServer]) -> EmbeddingsClient:
    return EmbeddingsClient(embeddings[1].url, timeout=1.0)


async def test_the_request_is_that_of_the_specification(
    embedder: EmbeddingsClient, embedding_requests: EmbeddingRequests
) -> None:
    vector = await embedder.embed(CANARY_QUERY, model=MODEL)
    assert vector.tolist() == pytest.approx(vector_of(CANARY_QUERY))
    assert embedding_requests() == [{"model": MODEL, "input": [CANARY_QUERY]}]


async def test_several_texts_are_one_request(embedder: EmbeddingsClient, embedding_requests: EmbeddingRequests) -> None:
    vectors = await embedder.embed_many(["a", "b"], model=MODEL)
    assert [vector.tolist() for vector in vectors] == [pytest.approx(vector_of(text)) for text in "ab"]
    assert len(embedding_requests()) == 1


@pytest.mark.parametrize("shape", ["base64", "backwards"])
async def test_other_forms_of_the_response_are_parsed(
    embedder: EmbeddingsClient, endpoint: FakeEmbeddings, shape: str
) -> None:
    endpoint.fault = shape
    vectors = await embedder.embed_many(["a", "b"], model=MODEL)
    assert [vector.tolist() for vector in vectors] == [pytest.approx(vector_of(text), abs=1e-6) for text in "ab"]


async def test_a_request_to_a_busy_endpoint_is_retried(
    embedder: EmbeddingsClient, endpoint: FakeEmbeddings, embedding_requests: EmbeddingRequests
) -> None:
    endpoint.fault = "busy once"
    await embedder.embed("a", model=MODEL)
    assert len(embedding_requests()) == 2


@pytest.mark.parametrize("fault", ["413", "500", "slow", "drop", "no json", "too few", "not finite"])
async def test_a_fault_is_a_failed_embedding_that_repeats_no_text(
    embedder: EmbeddingsClient, endpoint: FakeEmbeddings, fault: str
) -> None:
    endpoint.fault = fault
    with pytest.raises(EmbeddingFailed) as caught:
        await embedder.embed(CANARY_QUERY, model=MODEL)
    assert CANARY_QUERY not in str(caught.value)


async def test_a_time_limit_is_an_embedding_timeout(
    embeddings: tuple[FakeEmbeddings, LocalServer], endpoint: FakeEmbeddings
) -> None:
    endpoint.fault = "slow"
    with pytest.raises(EmbeddingTimeout, match=r"no vectors within 0\.2 s") as caught:
        await EmbeddingsClient(embeddings[1].url, timeout=0.2).embed("a", model=MODEL)
    assert isinstance(caught.value, TimeoutError)
    with scripted_server(Response(504, {})) as server, pytest.raises(EmbeddingTimeout, match="HTTP 504"):
        await EmbeddingsClient(server.url, timeout=20).embed("a", model=MODEL)


async def test_an_unreachable_endpoint_is_a_failed_embedding() -> None:
    with pytest.raises(EmbeddingFailed):
        await EmbeddingsClient(f"http://127.0.0.1:{free_port()}", timeout=1.0).embed("a", model=MODEL)


async def test_a_key_is_sent_and_is_not_part_of_the_connection(embeddings: tuple[FakeEmbeddings, LocalServer]) -> None:
    url = embeddings[1].url
    embedder = EmbeddingsClient(url, api_key=CANARY_KEY)
    await embedder.embed("a", model=MODEL)
    assert embeddings[1].requests[0].headers["authorization"] == f"Bearer {CANARY_KEY}"
    assert EmbeddingsClient(url.replace("//", f"//me:{CANARY_KEY}@")).connection == embedder.connection == url


def test_an_invalid_url_of_the_endpoint_is_rejected() -> None:
    with pytest.raises(InvalidConfiguration):
        EmbeddingsClient("tei-embeddings")


def test_each_event_loop_has_its_own_connections(embedder: EmbeddingsClient) -> None:
    for _ in range(3):
        assert len(asyncio.run(embedder.embed("a", model=MODEL))) == 64


async def test_a_known_text_is_not_embedded_again(
    embedder: EmbeddingsClient,
    cache: EmbeddingCache,
    embedding_requests: EmbeddingRequests,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = await cache.embed(embedder, CANARY_QUERY, model=MODEL)
    with caplog.at_level("INFO", "ragstore_client"):
        assert await cache.embed(embedder, CANARY_QUERY, model=MODEL) == first
    assert len(embedding_requests()) == 1
    assert f"Embedding cache hit for {embedder.connection}:{MODEL}" in caplog.text


async def test_another_model_connection_or_text_is_another_entry(
    embedder: EmbeddingsClient, cache: EmbeddingCache, embedding_requests: EmbeddingRequests
) -> None:
    elsewhere = EmbeddingsClient(embedder.connection.replace("127.0.0.1", "localhost"), timeout=1.0)
    await cache.embed(embedder, "a", model=MODEL)
    await cache.embed(embedder, "a", model="acme/small")
    await cache.embed(embedder, "b", model=MODEL)
    await cache.embed(elsewhere, "a", model=MODEL)
    assert len(embedding_requests()) == 4


async def test_the_cache_evicts_the_least_recently_used_vector(
    embedder: EmbeddingsClient, embedding_requests: EmbeddingRequests
) -> None:
    cache = EmbeddingCache(capacity=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        await cache.embed(embedder, text, model=MODEL)
    assert [body["input"] for body in embedding_requests()] == [["a"], ["b"], ["c"], ["b"]]


async def test_a_failure_is_not_cached(
    embedder: EmbeddingsClient, endpoint: FakeEmbeddings, cache: EmbeddingCache
) -> None:
    endpoint.fault = "500"
    with pytest.raises(EmbeddingFailed):
        await cache.embed(embedder, "a", model=MODEL)
    endpoint.fault = ""
    assert len(await cache.embed(embedder, "a", model=MODEL)) == 64


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/", "/v1/embeddings"])
async def test_a_url_may_end_where_other_clients_expect_it(
    embeddings: tuple[FakeEmbeddings, LocalServer], suffix: str
) -> None:
    embedder = EmbeddingsClient(embeddings[1].url + suffix)
    assert (await embedder.embed("a", model=MODEL)).tolist() == pytest.approx(vector_of("a"))
    assert embedder.connection == embeddings[1].url


@pytest.mark.parametrize("body", [[[1.0, 2.0]], {"vectors": [[1.0, 2.0]], "normalize": True, "dim": 2}])
async def test_the_embed_calls_of_tei_and_of_servers_of_one_model_are_spoken(body: object) -> None:
    with scripted_server(Response(200, body)) as server:
        vector = await EmbeddingsClient(f"{server.url}/embed").embed("a", model="any")
    assert vector.tolist() == [1.0, 2.0]
    assert server.requests[0].path == "/embed"
    assert json.loads(server.requests[0].body) == {"inputs": ["a"], "normalize": True}


async def test_a_failed_embedding_says_where_with_which_model_and_why(
    embedder: EmbeddingsClient, endpoint: FakeEmbeddings
) -> None:
    endpoint.fault = "413"
    with pytest.raises(EmbeddingFailed) as caught:
        await embedder.embed("a", model=MODEL)
    where = f"{embedder.connection}/v1/embeddings, model '{MODEL}'"
    assert str(caught.value) == f"{where}: HTTP 413 Request Entity Too Large"
    assert isinstance(caught.value.__cause__, PayloadTooLarge)
    port = free_port()
    with pytest.raises(EmbeddingFailed, match="connection refused") as refused:
        await EmbeddingsClient(f"http://127.0.0.1:{port}").embed("a", model=MODEL)
    assert isinstance(refused.value.__cause__, ConnectFailed)


class Unloaded:
    """An embedder with a problem of its own."""

    connection = "unloaded"

    def embed(self, text: str, *, model: str) -> list[float]:
        raise ValueError(f"model {model!r} is not loaded")


def test_the_message_of_an_embedder_survives(caplog: pytest.LogCaptureFixture) -> None:
    archive = RagArchiveConfig(name="a", collection_name="repo_a", embedding_model="m")
    retriever = Retriever(RagConfig(archives=[archive]), embedder=Unloaded())
    with pytest.raises(EmbeddingFailed, match="with m: ValueError: model 'm' is not loaded") as caught:
        retriever.search("Wo ist die Heizung?")
    assert isinstance(caught.value.__cause__, ValueError)
    assert "model 'm' is not loaded" in caplog.text


class Talkative:
    """An embedder whose error repeats the query."""

    connection = "talkative"

    async def embed(self, text: str, *, model: str) -> list[float]:
        raise ValueError(f"cannot embed {text}")


def test_a_message_that_repeats_the_query_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    archive = RagArchiveConfig(name="a", collection_name="repo_a", embedding_model="m")
    retriever = Retriever(RagConfig(archives=[archive]), embedder=Talkative())
    with pytest.raises(EmbeddingFailed, match="cannot embed"):
        retriever.search(f"Wo ist {CANARY_QUERY}?")
    assert "failed: ValueError" in caplog.text
