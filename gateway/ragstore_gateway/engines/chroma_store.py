"""`chroma`: collections of a Chroma server.

The store itself runs in this process over that server, so that a search, a filter and a deletion mean the same as with
`ragstore`: Chroma's own filters distinguish 3 from 3.0, and its index loses documents that the store finds again.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Final

from ragstore import settings
from ragstore.app import in_process
from ragstore_client import AsyncClient
from ragstore_gateway.engines.engine import Adapter
from ragstore_gateway.engines.linked_store import LinkedStore
from ragstore_gateway.engines.names import physical_name
from ragstore_gateway.engines.ragstore_store import RagstoreStore, clients_of
from ragstore_gateway.engines.shared_client import Secrets, SharedClient
from ragstore_gateway.engines.store_parameters import ChromaParameters
from ragstore_gateway.secrets.secret_references import SecretReferences
from ragstore_gateway.store.in_process_client import InProcessClient


class ChromaConnection:
    """The store over a Chroma server, and a client of it.

    Args:
        parameters: the server.
        timeout_seconds: time limit of one call of Chroma.
        token: the key for it; empty for none.
    """

    def __init__(self, parameters: ChromaParameters, timeout_seconds: float, token: str) -> None:
        store_settings = settings.Settings(
            chroma_url=parameters.base_url,
            chroma_tenant=parameters.tenant_name,
            chroma_database=parameters.database_name,
            chroma_token=token,
            chroma_timeout_seconds=timeout_seconds,
            index_sample_every=0,
        )
        self._store = in_process(store_settings, threading.Event())
        self._started = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._http = InProcessClient(self._store.trusted)
        self.client = AsyncClient("http://127.0.0.1", api_key=None, http=self._http, retries=0)

    async def start(self) -> None:
        """Start the store. Chroma is not needed for it."""
        self._task = asyncio.create_task(self._run())
        started = asyncio.create_task(self._started.wait())
        try:
            await asyncio.wait((self._task, started), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # A call that is given up while it connects leaves no store behind.
            self._stopping.set()
            raise
        finally:
            started.cancel()
        if self._task.done():
            await self._task

    async def stop(self) -> None:
        """Stop the store."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        """Start and stop the store in one task: its lifespan has a task group, which no other task may leave."""
        async with self._store.lifespan(), self._http, self.client:
            self._started.set()
            await self._stopping.wait()


def connect_chroma(
    parameters: ChromaParameters, secrets: SecretReferences, timeout_seconds: float
) -> SharedClient[ChromaConnection]:
    """The connection to a Chroma server.

    Args:
        parameters: the server.
        secrets: resolves the reference to its key.
        timeout_seconds: time limit of one call of Chroma.
    """

    async def connect(values: Secrets) -> ChromaConnection:
        connection = ChromaConnection(parameters, timeout_seconds, values.get("api_key", ""))
        await connection.start()
        return connection

    references = {} if parameters.api_key is None else {"api_key": parameters.api_key}
    return SharedClient(connect, ChromaConnection.stop, references, secrets)


def chroma_store(
    client: SharedClient[ChromaConnection],
    parameters: ChromaParameters,
    collection: str,
    dimension: int,
    timeout_seconds: float,
) -> RagstoreStore:
    """A collection of a Chroma server.

    Args:
        client: the connection to the server.
        collection: name of the collection.
        timeout_seconds: time limit of one call.
    """
    use = clients_of(client)
    if parameters.collection is not None:
        return LinkedStore(use, parameters, dimension, timeout_seconds, "chroma")
    name = physical_name(parameters.collection_name, collection)
    return RagstoreStore(use, name, dimension, timeout_seconds, "chroma")


ADAPTER: Final = Adapter(connect_chroma, chroma_store)
