"""A gateway that is killed and started again, with keys, and calls of it that a kill interrupts."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support.gateways import start_gateway
from tests.support.ingestion import State
from tests.support.postgres import running_postgres
from tests.support.processes import kill
from tests.support.servers import Served, free_port, start_service

SCOPES: Final[dict[str, dict[str, Any]]] = {
    "admin": {"gateway": {"role": "admin"}, "store": {"role": "admin", "collections": ["kb_*"]}},
    "first": {"gateway": {"role": "writer"}, "store": {"role": "writer"}},
    "second": {"gateway": {"role": "writer"}},
    "reader": {"gateway": {"role": "reader"}},
    "foreign": {"store": {"role": "writer", "collections": ["kb_*"]}},
}
"""The keys. `foreign` names the prefix of the collections of bases, so it may write there."""

ENVIRON: Final = {
    "RAGSTORE_GATEWAY_INGESTION_LEASE_SECONDS": "6",
    "RAGSTORE_GATEWAY_RAG_TIMEOUT_SECONDS": "60",
}

TIMEOUT_SECONDS: Final = 90.0

STARTS: Final = 10
"""Maximum number of attempts to start the gateway."""


class Interrupted(Exception):
    """The gateway was killed during a call, or its database was not available. The call may have had its effect."""


class Gateway:
    """A gateway.

    Attributes:
        kills: number of kills.
        unavailable: number of responses that were 503.

    Args:
        folder: an empty folder for its data and its store's.
        postgres_url: PostgreSQL for its state, with a store in a process of its own; empty for SQLite, with a store in
            the gateway's process.
    """

    def __init__(self, folder: Path, postgres_url: str) -> None:
        keys = folder / "keys"
        _write_keys(keys)
        self._folder = folder
        self._port = free_port()
        self._stack = ExitStack()
        environ = {**ENVIRON, "RAGSTORE_GATEWAY_KEYS_FILE": str(keys), "RAGSTORE_GATEWAY_DATABASE_URL": postgres_url}
        self.url = self.store_url = f"http://127.0.0.1:{self._port}"
        if postgres_url:
            (folder / "store").mkdir()
            store = start_service(folder / "store", {"RAGSTORE_KEYS_FILE": str(keys)})
            self._stack.callback(store.stop)
            self.store_url = store.url
            environ |= {"RAGSTORE_URL": store.url, "RAGSTORE_API_KEY": plain_key("admin")}
        self._environ = environ
        self._served = self._start()
        self.state = State.of(folder, postgres_url)
        self._is_running = asyncio.Event()
        self._is_running.set()
        limits = httpx.Limits(keepalive_expiry=2)
        self._client = httpx.AsyncClient(timeout=TIMEOUT_SECONDS, limits=limits)
        self.kills = 0
        self.unavailable = 0

    def _start(self) -> Served:
        """Start it, again if it is not ready within a minute: a machine under load is no difference."""
        for _ in range(STARTS - 1):
            with suppress(RuntimeError):
                return start_gateway(self._folder, self._environ, port=self._port)
        return start_gateway(self._folder, self._environ, port=self._port)

    async def close(self) -> None:
        """Stop everything."""
        await self._client.aclose()
        self.state.close()
        if self._served.process.poll() is None:
            await asyncio.to_thread(self._served.stop)
        await asyncio.to_thread(self._stack.close)

    async def restart_after_kill(self) -> None:
        """Kill the gateway with SIGKILL, and start it again."""
        self._is_running.clear()
        self.kills += 1
        await asyncio.to_thread(kill, self._served)
        self._served = await asyncio.to_thread(self._start)
        self._is_running.set()

    async def call(self, key: str, method: str, path: str, *, store: bool = False, **options: Any) -> httpx.Response:
        """Call the gateway.

        Args:
            key: name of the key.
            store: whether the store is called, through the gateway if that has it in its process.
            options: of httpx.

        Raises:
            Interrupted: the gateway was killed meanwhile, and is running again, or the response is 503.
        """
        await self._is_running.wait()
        kills = self.kills
        headers = {"Authorization": f"Bearer {plain_key(key)}", **options.pop("headers", {})}
        url = (self.store_url if store else self.url) + path
        try:
            response = await self._client.request(method, url, headers=headers, **options)
        except httpx.TransportError:
            if self.kills == kills:
                raise
        else:
            if response.status_code != 503:
                return response
            self.unavailable += 1
        await self._is_running.wait()
        raise Interrupted

    async def repeat(self, key: str, method: str, path: str, **options: Any) -> httpx.Response:
        """Call the gateway, again after a kill or a 503. See `call`."""
        while True:
            try:
                return await self.call(key, method, path, **options)
            except Interrupted:
                await asyncio.sleep(0.1)

    async def read(self, key: str, path: str) -> httpx.Response:
        """Read something, again after a kill or a 503."""
        return await self.repeat(key, "GET", path)


def plain_key(name: str) -> str:
    """A key by its name."""
    return f"rsk_{name}"


def _write_keys(file: Path) -> None:
    lines = (
        {"name": name, "sha256": hashlib.sha256(plain_key(name).encode()).hexdigest(), "scopes": scopes}
        for name, scopes in SCOPES.items()
    )
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    file.chmod(0o600)


@asynccontextmanager
async def running_gateway(folder: Path, postgres_url: str) -> AsyncIterator[Gateway]:
    """Start a gateway, and stop it at the end."""
    gateway = Gateway(folder, postgres_url)
    try:
        yield gateway
    finally:
        await gateway.close()


@contextmanager
def database(kind: str) -> Iterator[str]:
    """The address of a fresh database of PostgreSQL; empty for SQLite."""
    if kind == "sqlite":
        yield ""
        return
    with running_postgres() as server:
        yield server.create_database()
