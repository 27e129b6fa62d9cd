"""Deadlines, retries and the circuit breaker, over a real Chroma behind a proxy that fails on demand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from ragstore.chroma.backend import Backend
from ragstore.chroma.layers.circuit_breaker import FAILURES, OPEN_SECONDS, CircuitBreakerBackend, CircuitOpen
from ragstore.chroma.layers.retries import RetryingBackend
from ragstore.errors import ChromaTimeout, ChromaUnavailable
from ragstore.kit.context import set_deadline
from ragstore.model.documents import EVERYTHING, Write
from ragstore.store.deadline import DeadlineStore
from tests.support.factories import add_documents, batch
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.servers import Served
from tests.support.stores import exact, http_backend


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
    await made.count_collections()
    yield made
    await made.close()


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_call_that_could_not_reach_chroma_is_retried(proxy: FaultProxy, backend: Backend) -> None:
    proxy.fault, proxy.every = "cut", 3
    retrying = RetryingBackend(backend, 30)
    for _ in range(10):
        await retrying.count_collections()
    assert proxy.faults > 0


async def test_the_number_of_retries_is_limited(proxy: FaultProxy, backend: Backend) -> None:
    proxy.fault = "cut"
    with pytest.raises(ChromaUnavailable):
        await RetryingBackend(backend, 30).count_collections()


async def test_the_creation_of_a_collection_is_not_retried(proxy: FaultProxy, backend: Backend, name: str) -> None:
    proxy.fault = "cut"
    with pytest.raises(ChromaUnavailable):
        await RetryingBackend(backend, 30).create_collection(name, {}, "l2")
    assert proxy.faults == 1


async def test_an_add_that_is_retried_recognises_its_own_documents(backend: Backend, name: str) -> None:
    store = exact(backend)
    await store.create_collection(name, {}, "l2")
    write = Write("add", batch("a", "b"))
    assert await store.write(name, [write]) == [None]
    assert await store.write(name, [write]) == [None]
    assert (await store.get(name, EVERYTHING)).ids == ["a", "b"]


async def test_the_circuit_opens_after_failures_and_closes_after_a_success(proxy: FaultProxy, backend: Backend) -> None:
    clock = Clock()
    breaker = CircuitBreakerBackend(backend, clock)
    proxy.fault = "cut"
    for _ in range(FAILURES):
        with pytest.raises(ChromaUnavailable, match=r"cannot be reached$"):
            await breaker.count_collections()
    met = proxy.faults
    with pytest.raises(CircuitOpen):
        await breaker.count_collections()
    assert proxy.faults == met

    clock.now += OPEN_SECONDS
    with pytest.raises(ChromaUnavailable, match=r"cannot be reached$"):
        await breaker.count_collections()
    with pytest.raises(CircuitOpen):
        await breaker.count_collections()

    proxy.fault = "none"
    clock.now += OPEN_SECONDS
    await breaker.count_collections()
    await breaker.count_collections()


async def test_a_probe_passes_an_open_circuit_and_closes_it(proxy: FaultProxy, backend: Backend) -> None:
    breaker = CircuitBreakerBackend(backend, Clock())
    proxy.fault = "cut"
    for _ in range(FAILURES):
        with pytest.raises(ChromaUnavailable):
            await breaker.count_collections()
    with pytest.raises(ChromaUnavailable, match=r"cannot be reached$"):
        await breaker.status()
    proxy.fault = "none"
    with pytest.raises(CircuitOpen):
        await breaker.count_collections()
    await breaker.status()
    await breaker.count_collections()


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
