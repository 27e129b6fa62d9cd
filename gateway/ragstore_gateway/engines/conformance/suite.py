"""`Target`: the engine that the suite tests. `Suite`: its fixtures."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import uuid4

import pytest
import pytest_asyncio

from ragstore_client import AsyncClient
from ragstore_gateway.engines.assembly import Engines
from ragstore_gateway.engines.conformance.records import DIMENSION
from ragstore_gateway.engines.engine_collection import EngineCollection
from ragstore_gateway.secrets.secret_references import EnvironmentSource, SecretReferences

NO_SERVICE: Final = "http://127.0.0.1:9"
"""An address at which nothing listens."""


@dataclass
class Target:
    """An engine, as the configuration of a knowledge base selects it.

    Attributes:
        store_type: its name.
        parameters: the `storeParameters` of a configuration.
        environ: the variables that `${env:NAME}` in the parameters refers to.
        is_durable: whether another gateway finds what was stored.
        ragstore_url: address of the store of a gateway; only the engine `ragstore` needs it.
        stack: closes what was opened.
    """

    store_type: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    is_durable: bool = True
    ragstore_url: str = NO_SERVICE
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def start(self, timeout_seconds: float = 20) -> Engines:
        """The engines of a gateway that has just started.

        Args:
            timeout_seconds: time limit of one call of a store.
        """
        client = await self.stack.enter_async_context(AsyncClient(self.ragstore_url, api_key=None, retries=0))
        secrets = SecretReferences({"env": EnvironmentSource(environ=self.environ)})
        stores = Engines(secrets, client, timeout_seconds)
        await self.stack.enter_async_context(stores.running())
        return stores

    async def open(self, collection: str, dimension: int = DIMENSION) -> EngineCollection:
        """A collection, as a gateway that has just started sees it.

        Args:
            collection: its name.
            dimension: dimension of its vectors.
        """
        return (await self.start()).open(self.store_type, self.parameters, collection, dimension)


class Suite:
    """The fixtures of the suite, which run in the event loop of the session as the tests do."""

    pytestmark = pytest.mark.asyncio(loop_scope="session")

    @pytest_asyncio.fixture(loop_scope="session")
    async def engine(self, target: Target) -> AsyncIterator[Target]:
        """The engine of the fixture `target`; what the test opens is closed at its end."""
        async with AsyncExitStack() as stack:
            yield replace(target, stack=stack)

    @pytest_asyncio.fixture(loop_scope="session")
    async def stores(self, engine: Target) -> Engines:
        """The engines of one gateway."""
        return await engine.start()

    @pytest.fixture
    def collection(self) -> str:
        """The name of a collection that no other test uses."""
        return f"kb-{uuid4().hex}"

    @pytest_asyncio.fixture(loop_scope="session")
    async def store(self, engine: Target, stores: Engines, collection: str) -> AsyncIterator[EngineCollection]:
        """A new, empty collection."""
        opened = stores.open(engine.store_type, engine.parameters, collection, DIMENSION)
        await opened.create()
        yield opened
        await opened.drop()
