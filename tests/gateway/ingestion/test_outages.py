"""Providers that are away during an ingestion, or that reject it: the first are waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from ragstore.kit.errors import ServiceError
from ragstore_gateway.database import repetition
from ragstore_gateway.embeddings.embeddings import Embeddings
from ragstore_gateway.errors import EmbeddingRejected, EmbeddingUnavailable, ModelUnavailable
from ragstore_gateway.ingestion.errors import IngestionAbandoned
from ragstore_gateway.ingestion.retries import Retries
from tests.gateway.embeddings.factories import embeddings
from tests.gateway.ingestion.conftest import new_base
from tests.soak.outages import MANY_ATTEMPTS, campaign
from tests.soak.outages import retries as retries_of
from tests.support.fake_providers import FakeProvider, Received, fake_provider, json_response, vectors_of
from tests.support.gateways import start_gateway
from tests.support.ingestion import EmbeddingServer, client_of, embedding_server, until
from tests.support.servers import Served, running

ENVIRON = {"RAGSTORE_GATEWAY_INGESTION_CONCURRENCY": "4", "RAGSTORE_GATEWAY_EMBEDDING_CACHE_BYTES": "0"}


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of this process are repeated soon."""
    monkeypatch.setattr(repetition, "MAX_SECONDS", 0.05)


@pytest.fixture
async def made() -> AsyncIterator[Embeddings]:
    """Embedders, which keep no vectors."""
    async with embeddings(cache_bytes=0, timeout_seconds=20) as made:
        yield made


@pytest.fixture
async def provider() -> AsyncIterator[FakeProvider]:
    """A provider that responds with vectors."""

    async def respond(received: Received) -> web.StreamResponse:
        return vectors_of(received)

    async with fake_provider(respond) as provider:
        yield provider


async def needed() -> bool:
    """The ingestion has not ended."""
    return True


class Waits:
    """Records what a call waits for."""

    def __init__(self) -> None:
        self.codes: list[str] = []

    async def __call__(self, code: str) -> None:
        """Record a code."""
        self.codes.append(code)


class Counted:
    """Counts the attempts of a call, and does something before one of them."""

    def __init__(self, work: Callable[[], Awaitable[object]], before: Callable[[int], Awaitable[None]]) -> None:
        self.attempts = 0
        self._work = work
        self._before = before

    async def __call__(self) -> object:
        """Make the call."""
        self.attempts += 1
        await self._before(self.attempts)
        return await self._work()


async def nothing(attempt: int) -> None:
    """Nothing is done before an attempt."""


@pytest.mark.parametrize("status", [500, 502, 503, 504, 521, 529])
async def test_a_call_is_repeated_until_a_provider_that_responds_with_5xx_recovers(
    made: Embeddings, provider: FakeProvider, status: int
) -> None:
    async def unavailable(received: Received) -> web.StreamResponse:
        return json_response({}, status, {"Retry-After": "0"})

    async def recover(attempt: int) -> None:
        if attempt == MANY_ATTEMPTS + 1:
            provider.respond = healthy

    healthy, provider.respond = provider.respond, unavailable
    embed = partial(made.of("tei", {"baseUrl": provider.url}).embed, ["tea"], "document")
    counted = Counted(embed, recover)
    await Retries(600).call(counted, needed, waits := Waits())
    assert counted.attempts == MANY_ATTEMPTS + 1
    assert waits.codes == [EmbeddingUnavailable.code, ""]


async def test_a_call_is_repeated_until_a_provider_listens_again(made: Embeddings, provider: FakeProvider) -> None:
    async def restart(attempt: int) -> None:
        if attempt == MANY_ATTEMPTS + 1:
            await provider.start()

    await provider.stop()
    embed = partial(made.of("tei", {"baseUrl": provider.url}).embed, ["tea"], "document")
    counted = Counted(embed, restart)
    await Retries(600).call(counted, needed, Waits())
    assert counted.attempts == MANY_ATTEMPTS + 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, EmbeddingRejected),
        (413, EmbeddingRejected),
        (422, EmbeddingRejected),
        (401, EmbeddingRejected),
        (403, EmbeddingRejected),
        (404, ModelUnavailable),
        (501, EmbeddingRejected),
    ],
)
async def test_a_rejection_is_not_repeated(
    made: Embeddings, provider: FakeProvider, status: int, kind: type[ServiceError]
) -> None:
    async def reject(received: Received) -> web.StreamResponse:
        return json_response({}, status)

    provider.respond = reject
    counted = Counted(partial(made.of("tei", {"baseUrl": provider.url}).embed, ["tea"], "document"), nothing)
    with pytest.raises(kind):
        await Retries(600).call(counted, needed, Waits())
    assert counted.attempts == 1
    assert len(provider.received) == 1


async def test_a_name_that_cannot_be_resolved_is_a_provider_that_is_away(made: Embeddings) -> None:
    with pytest.raises(EmbeddingUnavailable, match="cannot be reached"):
        await made.of("tei", {"baseUrl": "http://provider.invalid"}).embed(["tea"], "document")


async def test_a_wait_for_a_provider_ends_with_its_ingestion(made: Embeddings, provider: FakeProvider) -> None:
    async def not_needed() -> bool:
        return False

    await provider.stop()
    embed = partial(made.of("tei", {"baseUrl": provider.url}).embed, ["tea"], "document")
    with pytest.raises(IngestionAbandoned):
        await Retries(600).call(embed, not_needed, Waits())


async def test_a_provider_that_stays_away_is_given_up_at_the_end_of_the_time(
    made: Embeddings, provider: FakeProvider
) -> None:
    await provider.stop()
    counted = Counted(partial(made.of("tei", {"baseUrl": provider.url}).embed, ["tea"], "document"), nothing)
    with pytest.raises(EmbeddingUnavailable):
        await Retries(0.5).call(counted, needed, Waits())


@pytest.mark.process
async def test_a_restart_of_the_provider_in_the_middle_of_many_documents_loses_none(tmp_path: Path) -> None:
    found = await campaign(tmp_path, documents=36)
    assert found.states == {"completed": 36}


@pytest.mark.process
async def test_ingestions_wait_for_the_slots_of_a_slow_provider_longer_than_a_call_may_take(tmp_path: Path) -> None:
    """With a provider that took 8 s for each request, ingestions failed with `embedding_timeout`."""
    limits = {"RAGSTORE_GATEWAY_EMBEDDING_CONCURRENCY": "1", "RAGSTORE_GATEWAY_EMBEDDING_TIMEOUT_SECONDS": "1"}
    # Each document has 30 chunks, so that each one is a request.
    texts = ["\n".join(f"tea {number} {line} ".ljust(100, ".") for line in range(30)) for number in range(12)]
    async with embedding_server(seconds=0.2) as slow:
        with running(start_gateway(tmp_path, {**ENVIRON, **limits})) as served:
            async with client_of(served.url) as client:
                bases = [
                    await new_base(client, slow, chunkStrategy="window", chunkSize=100, chunkOverlap=0)
                    for _ in range(2)
                ]
                sent = [(base, f"doc-{number}", text) for base in bases for number, text in enumerate(texts)]
                ids = await asyncio.gather(*(base.ingest(name, text) for base, name, text in sent))
                states = [(await base.ended(each))["status"] for (base, _, _), each in zip(sent, ids, strict=True)]
            assert set(states) == {"completed"}
            assert retries_of(served) == []
            assert "continue alone" not in served.log.read_text()


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway that waits as long as the default says."""
    with running(start_gateway(tmp_path_factory.mktemp("waiting"), ENVIRON)) as served:
        yield served


@pytest.mark.process
async def test_a_base_whose_provider_is_away_delays_no_base_of_another_provider(
    waiting: Served, server: EmbeddingServer
) -> None:
    async with embedding_server() as away, client_of(waiting.url) as client:
        base, other = await new_base(client, away), await new_base(client, server)
        await away.stop()
        many = [await base.ingest(f"doc-{number}", f"tea {number}") for number in range(12)]
        await until(lambda: len(retries_of(waiting)) >= 3)
        progress = await base.progress(many)
        assert progress["waiting"] + progress["processing"] == 12
        assert progress["waitingFor"].get("embedding_unavailable", 0) >= 1
        assert {each["waitingFor"] for each in progress["ingestions"] if each["status"] == "pending"} <= {"queue"}
        assert "embedding_unavailable" in {each.get("waitingFor") for each in progress["ingestions"]}
        assert (await other.ended(await other.ingest("one", "coffee")))["status"] == "completed"
        for each in many:
            assert (await base.status(each))["status"] in ("pending", "processing")
            # A wait of up to 30 s is not awaited.
            assert (await client.delete(f"{base.path}/ingestion/{each}")).status_code == 204
            assert (await base.ended(each))["status"] == "failed: The ingestion was cancelled"
        await away.start()
        assert (await base.ended(await base.ingest("doc", "tea")))["status"] == "completed"


@pytest.mark.process
async def test_a_gateway_that_is_stopped_while_it_waits_for_a_provider_continues_after_its_start(
    tmp_path: Path,
) -> None:
    async with embedding_server() as away:
        with running(start_gateway(tmp_path, ENVIRON)) as served:
            async with client_of(served.url) as client:
                base = await new_base(client, away)
                await away.stop()
                ingestion = await base.ingest("doc", "tea")
                await until(lambda: bool(retries_of(served)))
            assert await asyncio.to_thread(served.stop) == 0
        await away.start()
        with running(start_gateway(tmp_path, ENVIRON)) as served:
            async with httpx.AsyncClient(base_url=served.url, timeout=30) as client:
                base.client = client
                assert (await base.ended(ingestion))["status"] == "completed"
