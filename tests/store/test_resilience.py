"""Deadlines, retries and the circuit breaker, over a real Chroma behind a proxy that fails on demand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from prometheus_client import REGISTRY

from ragstore.chroma.backend import Backend
from ragstore.chroma.layers.circuit_breaker import MAX_FAILURES, OPEN_SECONDS, CircuitBreakerLayer, CircuitOpen
from ragstore.chroma.layers.layered_backend import LayeredBackend
from ragstore.chroma.operations import CountCollections, CreateCollection, DeleteCollection, GetStatus
from ragstore.errors import ChromaTimeout, ChromaUnavailable
from ragstore.kit.context import set_deadline
from ragstore.model.documents import EVERYTHING, Write
from ragstore.store.deadline import DeadlineStore
from tests.support.clock import Clock
from tests.support.factories import add_documents, batch
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.servers import Served, free_port
from tests.support.stores import exact, http_backend, with_retries


@pytest.fixture
async def proxy(chroma: Served) -> AsyncIterator[FaultProxy]:
    """A proxy in front of Chroma. Once it has a fault, it applies it to every chunk."""
    async with fault_proxy(urlsplit(chroma.url).port or 0) as made:
        made.every = 1
        yield made


@pytest.fixture
async def backend(proxy: FaultProxy) -> AsyncIterator[Backend]:
    """Chroma behind the proxy."""
    made = http_backend(f"http://127.0.0.1:{proxy.port}", "deadlines")
    await made.start()
    await made.call(CountCollections())
    yield made
    await made.close()


async def test_a_call_that_could_not_reach_chroma_is_retried(proxy: FaultProxy, backend: Backend) -> None:
    proxy.fault, proxy.every = "cut", 3
    retrying = with_retries(backend)
    for _ in range(10):
        await retrying.call(CountCollections())
    assert proxy.faults > 0


async def test_the_number_of_retries_is_limited(proxy: FaultProxy, backend: Backend) -> None:
    proxy.fault = "cut"
    with pytest.raises(ChromaUnavailable):
        await with_retries(backend).call(CountCollections())


async def test_the_creation_of_a_collection_is_not_retried(proxy: FaultProxy, backend: Backend, name: str) -> None:
    proxy.fault = "cut"
    with pytest.raises(ChromaUnavailable):
        await with_retries(backend).call(CreateCollection(name, {}, "l2"))
    assert proxy.faults == 1


async def test_a_deletion_that_was_not_sent_is_not_repeated(name: str) -> None:
    """Only one whose connection was lost is: it may have been applied, and is then found gone."""
    retried = REGISTRY.get_sample_value("ragstore_chroma_retries_total")
    away = with_retries(http_backend(f"http://127.0.0.1:{free_port()}", "deadlines"))
    await away.start()
    with pytest.raises(ChromaUnavailable):
        await away.call(DeleteCollection(name))
    await away.close()
    assert REGISTRY.get_sample_value("ragstore_chroma_retries_total") == retried


async def test_an_add_that_is_retried_recognises_its_own_documents(backend: Backend, name: str) -> None:
    store = exact(backend)
    await store.create_collection(name, {}, "l2")
    write = Write("add", batch("a", "b"))
    assert await store.write(name, [write]) == [None]
    assert await store.write(name, [write]) == [None]
    assert (await store.get(name, EVERYTHING)).ids == ["a", "b"]


async def test_the_circuit_opens_after_failures_and_closes_after_a_success(proxy: FaultProxy, backend: Backend) -> None:
    clock = Clock()
    breaker = LayeredBackend(backend, [CircuitBreakerLayer(clock)])
    proxy.fault = "cut"
    for _ in range(MAX_FAILURES):
        with pytest.raises(ChromaUnavailable, match=r"cannot be reached$"):
            await breaker.call(CountCollections())
    met = proxy.faults
    with pytest.raises(CircuitOpen):
        await breaker.call(CountCollections())
    assert proxy.faults == met

    clock.now += OPEN_SECONDS
    with pytest.raises(ChromaUnavailable, match=r"cannot be reached$"):
        await breaker.call(CountCollections())
    with pytest.raises(CircuitOpen):
        await breaker.call(CountCollections())

    proxy.fault = "none"
    clock.now += OPEN_SECONDS
    await breaker.call(CountCollections())
    await breaker.call(CountCollections())


async def test_a_probe_passes_an_open_circuit_and_closes_it(proxy: FaultProxy, backend: Backend) -> None:
    breaker = LayeredBackend(backend, [CircuitBreakerLayer(Clock())])
    proxy.fault = "cut"
    for _ in range(MAX_FAILURES):
        with pytest.raises(ChromaUnavailable):
            await breaker.call(CountCollections())
    with pytest.raises(ChromaUnavailable, match=r"cannot be reached$"):
        await breaker.call(GetStatus())
    proxy.fault = "none"
    with pytest.raises(CircuitOpen):
        await breaker.call(CountCollections())
    await breaker.call(GetStatus())
    await breaker.call(CountCollections())


async def test_a_store_keeps_to_the_budget_of_the_request(proxy: FaultProxy, backend: Backend, name: str) -> None:
    store = DeadlineStore(exact(backend))
    await store.create_collection(name, {}, "l2")
    proxy.fault = "silence"

    async def request() -> None:
        set_deadline(0.2)
        with pytest.raises(ChromaTimeout):
            await store.get(name, EVERYTHING)
        with pytest.raises(ChromaTimeout):
            await add_documents(store, name, batch("a"))

    await asyncio.create_task(request())
