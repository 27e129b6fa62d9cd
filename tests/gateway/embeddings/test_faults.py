"""Faults of providers: each one is a clear error in bounded time, and nothing stays behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate

import numpy as np
import pytest
from aiohttp import web

from ragstore_gateway.embeddings.embeddings import MAX_EMBEDDERS, Embeddings
from ragstore_gateway.embeddings.provider_embedder import max_response_bytes
from ragstore_gateway.embeddings.providers.provider import MAX_DIMENSIONS
from ragstore_gateway.errors import EmbeddingFailed, EmbeddingRateLimited, EmbeddingTimeout, ModelUnavailable
from tests.gateway.embeddings.factories import embeddings
from tests.gateway.embeddings.waits import until
from tests.support.fake_providers import (
    FakeProvider,
    Received,
    Respond,
    fake_provider,
    json_response,
    vectors_of,
)
from tests.support.fake_servers import listening, read_message


@pytest.fixture
async def made() -> AsyncIterator[Embeddings]:
    async with embeddings(timeout_seconds=20) as made:
        yield made


@pytest.fixture
async def server() -> AsyncIterator[FakeProvider]:
    async def respond(received: Received) -> web.StreamResponse:
        return vectors_of(received)

    async with fake_provider(respond) as server:
        yield server


def first(*responses: Callable[[], web.StreamResponse]) -> Respond:
    """Responds with these, and then with vectors."""
    left = list(responses)

    async def respond(received: Received) -> web.StreamResponse:
        return left.pop(0)() if left else vectors_of(received)

    return respond


def always(make: Callable[[], web.StreamResponse]) -> Respond:
    async def respond(received: Received) -> web.StreamResponse:
        return make()

    return respond


def busy(after: str = "0") -> web.Response:
    return json_response({"error": "busy"}, 429, {"Retry-After": after})


async def test_a_request_is_retried_after_the_time_that_a_429_demands(made: Embeddings, server: FakeProvider) -> None:
    server.respond = first(busy, lambda: busy(formatdate(time.time() - 5, usegmt=True)))
    vectors = await made.of("tei", {"baseUrl": server.url}).embed(["tea"], "document")
    assert vectors.shape == (1, 4)
    assert len(server.received) == 3


async def test_a_429_beyond_the_deadline_is_503_with_the_time(made: Embeddings, server: FakeProvider) -> None:
    server.respond = always(lambda: busy("120"))
    with pytest.raises(EmbeddingRateLimited) as caught:
        await made.of("tei", {"baseUrl": server.url}).embed(["tea"], "document")
    assert caught.value.status == 503
    assert caught.value.headers == {"Retry-After": "120"}
    assert len(server.received) == 1


@pytest.mark.parametrize("after", ["1e300", "Fri, 31 Dec 9999 23:59:59 GMT", "99999999999999999999"])
async def test_the_time_of_a_429_has_a_maximum(made: Embeddings, server: FakeProvider, after: str) -> None:
    server.respond = always(lambda: busy(after))
    with pytest.raises(EmbeddingRateLimited) as caught:
        await made.of("tei", {"baseUrl": server.url}).embed(["tea"], "document")
    assert caught.value.headers == {"Retry-After": "3600"}


async def test_very_large_and_small_components_are_normalised(made: Embeddings, server: FakeProvider) -> None:
    """Their squares are not float32: the vectors became zeros, or were not scaled."""
    server.respond = always(lambda: json_response([[3e38, 3e38], [-1e-30, 0.0], [0.0, 0.0], [3.0, 4.0]]))
    vectors = await made.of("tei", {"baseUrl": server.url}).embed(["a", "b", "c", "d"], "document")
    assert vectors == pytest.approx(np.array([[0.5**0.5, 0.5**0.5], [-1, 0], [0, 0], [0.6, 0.8]]))


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a_5xx_is_retried(made: Embeddings, server: FakeProvider, status: int) -> None:
    server.respond = first(lambda: json_response({}, status))
    await made.of("tei", {"baseUrl": server.url}).embed(["tea"], "document")
    assert len(server.received) == 2


async def test_a_5xx_that_stays_is_an_error_after_four_attempts(made: Embeddings, server: FakeProvider) -> None:
    server.respond = always(lambda: json_response({"error": "the text was tea"}, 500, {"Retry-After": "0"}))
    with pytest.raises(EmbeddingFailed, match="responded with status 500") as caught:
        await made.of("tei", {"baseUrl": server.url}).embed(["tea"], "document")
    assert caught.value.status == 502
    assert len(server.received) == 4


@pytest.mark.parametrize("status", [400, 413, 422, 302])
async def test_another_status_is_not_retried(made: Embeddings, server: FakeProvider, status: int) -> None:
    server.respond = always(lambda: json_response({}, status, {"Location": "/elsewhere"}))
    with pytest.raises(EmbeddingFailed, match=f"rejected the request with status {status}"):
        await made.of("tei", {"baseUrl": server.url}).embed(["tea"], "document")
    assert len(server.received) == 1


@pytest.mark.parametrize("status", [401, 403])
async def test_rejected_credentials_are_named_as_the_cause(made: Embeddings, server: FakeProvider, status: int) -> None:
    server.respond = always(lambda: json_response({}, status))
    with pytest.raises(EmbeddingFailed, match="did not accept the configured credentials"):
        await made.of("tei", {"baseUrl": server.url}).embed(["tea"], "document")


async def test_a_model_that_the_provider_does_not_have_is_never_replaced(
    made: Embeddings, server: FakeProvider
) -> None:
    server.respond = always(lambda: json_response({"error": "model not found"}, 404))
    with pytest.raises(ModelUnavailable, match="ollama/none does not exist"):
        await made.of("ollama", {"baseUrl": server.url, "model": "none"}).embed(["tea"], "document")


GARBAGE = {
    "not JSON": b"<html>tea</html>",
    "not UTF-8": b'["\xff"]',
    "another shape": b'{"vectors": "tea"}',
    "nested too deeply": b"[" * 100_000,
    "an empty vector": b"[[]]",
    "no vector": b"[]",
    "two vectors": b"[[1.0], [2.0]]",
    "a number beyond float64": b"[[1e999, 1.0]]",
    "a number beyond float32": b"[[1e39, 1.0]]",
    "text": b'[["tea", 1.0]]',
    "nothing": b"",
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_garbage_is_an_error_without_its_content(made: Embeddings, server: FakeProvider, name: str) -> None:
    server.respond = always(lambda: web.Response(body=GARBAGE[name]))
    with pytest.raises(EmbeddingFailed) as caught:
        await made.of("tei", {"baseUrl": server.url}).embed(["tea"], "document")
    assert "tea" not in caught.value.detail


async def test_vectors_of_different_dimensions_in_one_response_are_an_error(
    made: Embeddings, server: FakeProvider
) -> None:
    server.respond = always(lambda: json_response([[1.0, 0.0], [1.0]]))
    with pytest.raises(EmbeddingFailed, match="without usable vectors"):
        await made.of("tei", {"baseUrl": server.url}).embed(["tea", "coffee"], "document")


async def test_a_dimension_other_than_the_configured_one_is_an_error(made: Embeddings, server: FakeProvider) -> None:
    with pytest.raises(EmbeddingFailed, match="dimension 4 instead of 768"):
        await made.of("tei", {"baseUrl": server.url, "dimensions": 768}).embed(["tea"], "document")


async def test_a_dimension_that_changes_is_an_error(made: Embeddings, server: FakeProvider) -> None:
    embedder = made.of("tei", {"baseUrl": server.url})
    await embedder.embed(["tea"], "document")
    server.respond = always(lambda: json_response([[1.0, 0.0]]))
    with pytest.raises(EmbeddingFailed, match="dimension 2 instead of 4"):
        await embedder.embed(["coffee"], "document")
    assert (await embedder.embed(["tea"], "document")).shape == (1, 4)


async def test_wrong_vectors_are_not_cached(made: Embeddings, server: FakeProvider) -> None:
    embedder = made.of("tei", {"baseUrl": server.url, "dimensions": 4})
    server.respond = first(lambda: json_response([[1.0, 0.0]]))
    with pytest.raises(EmbeddingFailed):
        await embedder.embed(["tea"], "document")
    assert (await embedder.embed(["tea"], "document")).shape == (1, 4)


async def test_a_provider_that_cannot_be_reached_is_an_error(made: Embeddings) -> None:
    with pytest.raises(EmbeddingFailed, match="cannot be reached"):
        await made.of("tei", {"baseUrl": "http://127.0.0.1:9"}).embed(["tea"], "document")


async def test_a_connection_that_breaks_is_retried(made: Embeddings) -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_message(reader)
        whole = b"[[1.0, 0.0]]"
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(whole)}\r\n\r\n".encode()
        writer.write(head + (whole[:5] if connections == 1 else whole))
        await writer.drain()

    async with listening(talk) as url:
        assert (await made.of("tei", {"baseUrl": url}).embed(["tea"], "document")).shape == (1, 2)
    assert connections == 2


async def test_a_hung_provider_is_504_and_its_request_is_cancelled(server: FakeProvider) -> None:
    async def respond(received: Received) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    server.respond = respond
    async with embeddings(timeout_seconds=0.3) as made:
        with pytest.raises(EmbeddingTimeout) as caught:
            await made.of("tei", {"baseUrl": server.url}).embed(["tea"], "document")
        await until(lambda: server.left == 1)
    assert caught.value.status == 504


async def test_a_provider_that_trickles_is_504() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_message(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with listening(talk) as url, embeddings(timeout_seconds=0.3) as made:
        with pytest.raises(EmbeddingTimeout):
            await made.of("tei", {"baseUrl": url}).embed(["tea"], "document")


async def test_no_task_and_no_connection_stay_after_failures(server: FakeProvider) -> None:
    before = len(asyncio.all_tasks())

    async def respond(received: Received) -> web.StreamResponse:
        if b"a" * 3 in received.body:
            return json_response({}, 400)
        await asyncio.Event().wait()
        raise AssertionError

    server.respond = respond
    async with embeddings(concurrency=4) as made:
        embedder = made.of("tei", {"baseUrl": server.url})
        for _ in range(20):
            with pytest.raises(EmbeddingFailed):
                # The batch that fails ends the three that hang.
                await embedder.embed([f"{index}" for index in range(96)] + ["aaa"], "document")
        await until(lambda: server.left >= 1)
    await until(lambda: len(asyncio.all_tasks()) <= before)


async def test_the_requests_in_flight_stay_within_the_limit(server: FakeProvider) -> None:
    running: list[int] = [0, 0]

    async def respond(received: Received) -> web.StreamResponse:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(0.01)
        running[0] -= 1
        return vectors_of(received)

    server.respond = respond
    async with embeddings(concurrency=3) as made:
        embedder = made.of("tei", {"baseUrl": server.url})
        texts = [[f"{caller} {index}" for index in range(100)] for caller in range(4)]
        await asyncio.gather(*(embedder.embed(each, "document") for each in texts))
    assert running[1] == 3
    assert len(server.received) == 16


async def test_all_models_of_a_provider_share_the_limit_of_requests_in_flight(server: FakeProvider) -> None:
    """A request can name dimensions, and each embedder had a limit of its own."""
    running = most = 0

    async def respond(received: Received) -> web.StreamResponse:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return vectors_of(received)

    server.respond = respond
    async with embeddings(concurrency=2) as made:
        parameters = [{"baseUrl": server.url, "model": f"m{number}", "queryPrefix": "q: "} for number in range(6)]
        await asyncio.gather(*(made.of("tei", each).embed(["tea"], "query") for each in parameters))
        assert most == 2
        most = 0
        others = [{"baseUrl": f"{server.url}/{number}"} for number in range(6)]
        await asyncio.gather(*(made.of("tei", each).embed(["tea"], "query") for each in others))
        assert most > 2


async def test_the_embedder_that_is_used_is_kept_whatever_others_are_made(server: FakeProvider) -> None:
    async with embeddings() as made:
        default = made.set_default("tei", {"baseUrl": server.url})
        used = made.of("tei", {"baseUrl": server.url, "model": "used"})
        for number in range(MAX_EMBEDDERS):
            made.of("tei", {"baseUrl": server.url, "dimensions": number + 1})
            assert made.of("tei", {"baseUrl": server.url, "model": "used"}) is used
        assert made.default is default


async def test_a_response_that_is_too_large_for_its_texts_is_not_read(made: Embeddings, server: FakeProvider) -> None:
    """Decoded, the shortest numbers take 16 times their size: 128 MiB of them took 2 GB."""
    zeros = b"[[" + b"0," * max_response_bytes(1) + b"0]]"
    server.respond = always(lambda: web.Response(body=zeros, content_type="application/json"))
    with pytest.raises(EmbeddingFailed, match="too large"):
        await made.of("tei", {"baseUrl": server.url}).embed(["tea"], "document")
    largest = [-0.012345678901234567] * MAX_DIMENSIONS
    server.respond = always(lambda: json_response([largest]))
    assert (await made.of("tei", {"baseUrl": server.url}).embed(["tea"], "document")).shape == (1, MAX_DIMENSIONS)


async def test_a_rejection_names_the_likely_cause(made: Embeddings, server: FakeProvider) -> None:
    server.respond = always(lambda: json_response({}, 413))
    with pytest.raises(EmbeddingFailed, match="a text may be too long for the model"):
        await made.of("tei", {"baseUrl": server.url}).embed(["tea"], "document")


async def test_batches_are_bounded_by_count_and_by_bytes(server: FakeProvider) -> None:
    async with embeddings() as made:
        embedder = made.of("tei", {"baseUrl": server.url})
        await embedder.embed([f"{index}" for index in range(70)], "document")
        assert sorted(len(inputs(each)) for each in server.received) == [6, 32, 32]
        server.received.clear()
        # 3 bytes a character: two of these are more than 1,000,000 bytes.
        await embedder.embed(["茶" * 200_000, "咖" * 200_000, "水"], "document")
        assert sorted(len(inputs(each)) for each in server.received) == [1, 2]


async def test_vectors_are_in_the_order_of_the_texts(server: FakeProvider) -> None:
    async def respond(received: Received) -> web.StreamResponse:
        await asyncio.sleep(0.03 if '"' + "a" * 32 in received.body.decode() else 0)
        return vectors_of(received)

    server.respond = respond
    async with embeddings() as made:
        texts = ["a" * length for length in range(100, 0, -1)]
        vectors = await made.of("tei", {"baseUrl": server.url}).embed(texts, "document", normalize=False)
    assert vectors[:, 0].tolist() == list(range(100, 0, -1))


def inputs(received: Received) -> list[str]:
    body = received.json
    assert isinstance(body, dict)
    return list(body["inputs"])
