"""Fixtures of the tests of the gateway's client: clients of the shared gateway, and a base."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast
from uuid import uuid4

import pytest

from ragstore_client.gateway import AsyncGatewayClient, GatewayClient, KnowledgeBase, Stored
from tests.client.clients import BlockingAsyncClient
from tests.support.servers import Served

GatewayClientFactory = Callable[..., GatewayClient]


@pytest.fixture(params=["sync", "async"])
def make_gateway_client(request: pytest.FixtureRequest) -> Iterator[GatewayClientFactory]:
    """Makes a client for a URL: the test runs with the synchronous and with the asynchronous one."""
    made: list[GatewayClient] = []

    def make(url: str, **options: object) -> GatewayClient:
        if request.param == "async":
            made.append(cast("GatewayClient", BlockingAsyncClient(url, AsyncGatewayClient, **options)))
        else:
            made.append(GatewayClient(url, **options))  # type: ignore[arg-type]  # the test's own options
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(make_gateway_client: GatewayClientFactory, gateway: Served) -> GatewayClient:
    """A client of the shared gateway, synchronous and asynchronous."""
    return make_gateway_client(gateway.url)


@pytest.fixture
def base(client: GatewayClient) -> Iterator[Stored[KnowledgeBase]]:
    """A new knowledge base."""
    name = f"client-{uuid4().hex[:8]}"
    created = client.bases.create(KnowledgeBase(name=name, chunk_strategy="markdown", min_score=0.0))
    yield created
    if client.bases.exists(created.id):
        client.bases.delete(created, permanent=True)
