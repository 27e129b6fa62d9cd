"""Restarts three gateways and two stores in turn, under load, while PostgreSQL is away for a part of the time.

`python -m tests.soak.rolling --requests 900` runs this. Gateways and stores are behind load balancers that look at
`/health/ready`. Clients repeat nothing. A replica gets SIGTERM and is started again, and again if it ends, as a service
manager does; the next one follows when it is ready. Failed requests are counted by their kind, with status and code.

The exit code is 1 if an accepted document is not complete and found afterwards, or if a request failed in another way
than 503 with `Retry-After` while PostgreSQL was away.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx

from tests.support.fake_upstream import fake_upstream
from tests.support.gateways import start_gateway
from tests.support.ingestion import Base, client_of, until
from tests.support.load_balancer import load_balancer
from tests.support.postgres import Postgres, running_postgres
from tests.support.servers import Served, free_port, start_chroma, start_service

GATEWAYS: Final = 3
STORES: Final = 2
CLIENTS: Final = 6
PAUSE_SECONDS: Final = 0.6
DRAIN_SECONDS: Final = "5"
RECOVERY_SECONDS: Final = 10.0
"""After PostgreSQL is back, failures are attributed to its absence for this time."""

END_SECONDS: Final = 300.0
MAX_LISTED: Final = 1000
VECTOR: Final = [1.0, 0.0, 0.0, 0.0]


@dataclass
class Books:
    """The requests and their failures.

    Attributes:
        requests: number of requests by kind.
        failures: number of failed requests by kind, phase and outcome.
        unexpected: failures that nothing explains.
        ingestions: the ids of the accepted documents' ingestions, by name.
        away: whether PostgreSQL is away, or has just come back.
    """

    requests: Counter[str] = field(default_factory=Counter)
    failures: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    unexpected: Counter[str] = field(default_factory=Counter)
    ingestions: dict[str, str] = field(default_factory=dict)
    away: bool = False

    def failed(self, kind: str, was_away: bool, outcome: str, *, is_polite: bool) -> None:
        """Record a failed request.

        Args:
            was_away: whether PostgreSQL was away when it began.
            outcome: status and code, or the error.
            is_polite: whether it was 503 with `Retry-After`.
        """
        away = was_away or self.away
        self.failures[kind, "PostgreSQL away" if away else "PostgreSQL there", outcome] += 1
        if not (away and is_polite):
            self.unexpected[f"{kind}: {outcome}"] += 1


class Replica:
    """A process that is restarted on its port."""

    def __init__(self, start: Callable[[], Served]) -> None:
        self._start = start
        self._served: Served | None = None

    async def start(self) -> None:
        """Start it, and again until it is ready."""
        while self._served is None:
            try:
                self._served = await asyncio.to_thread(self._start)
            except RuntimeError:  # it ended, or was not ready in time
                await asyncio.sleep(1)

    async def stop(self) -> None:
        """End it, and wait for it."""
        if self._served is not None:
            await asyncio.to_thread(self._served.stop)
            self._served = None


class Load:
    """Requests of all kinds, one after the other.

    Args:
        client: calls the gateways.
        store: calls the stores.
        base: a base with documents.
    """

    def __init__(self, client: httpx.AsyncClient, store: httpx.AsyncClient, base: Base, books: Books) -> None:
        self._client = client
        self._store = store
        self._base = base
        self._books = books
        self._kinds: list[tuple[str, Callable[[int], Awaitable[httpx.Response]]]] = [
            ("ingestion", self._ingest),
            ("search of a base", self._search),
            ("chat of an assistant", self._chat),
            ("stream of an assistant", self._stream),
            ("chat passed through", self._plain),
            ("embedding", self._embed),
            ("query of the store", self._query),
            ("write to the store", self._write),
        ]

    async def work(self, seed: int, stopped: asyncio.Event) -> None:
        """Send requests until the test ends."""
        generator = random.Random(seed)
        number = seed * 1_000_000
        while not stopped.is_set():
            number += 1
            kind, send = generator.choice(self._kinds)
            self._books.requests[kind] += 1
            was_away = self._books.away
            try:
                response = await send(number)
            except httpx.HTTPError as error:
                self._books.failed(kind, was_away, type(error).__name__, is_polite=False)
            else:
                if not response.is_success:
                    is_polite = response.status_code == 503 and "Retry-After" in response.headers
                    self._books.failed(kind, was_away, _outcome(response), is_polite=is_polite)
            await asyncio.sleep(generator.uniform(0.5, 1.5) * PAUSE_SECONDS)

    async def _ingest(self, number: int) -> httpx.Response:
        response = await self._base.post(f"doc-{number}", f"tea {number}")
        if response.is_success:
            self._books.ingestions[f"doc-{number}"] = response.json()["ingestionId"]
        return response

    async def _search(self, number: int) -> httpx.Response:
        return await self._client.post(f"{self._base.path}/query", json={"query": f"tea {number}"})

    async def _chat(self, number: int) -> httpx.Response:
        return await self._client.post("/v1/chat/completions", json=_messages("rag/ops", number))

    async def _stream(self, number: int) -> httpx.Response:
        response = await self._client.post(
            "/v1/chat/completions", json={**_messages("rag/ops", number), "stream": True}
        )
        if response.is_success and not response.text.rstrip().endswith("[DONE]"):
            raise httpx.RemoteProtocolError("the stream has no end")
        return response

    async def _plain(self, number: int) -> httpx.Response:
        return await self._client.post("/v1/chat/completions", json=_messages("m", number))

    async def _embed(self, number: int) -> httpx.Response:
        return await self._client.post("/embed", json={"inputs": [f"tea {number}"]})

    async def _query(self, _: int) -> httpx.Response:
        return await self._store.post("/collections/tea/query", json={"query_embedding": VECTOR, "top_k": 3})

    async def _write(self, number: int) -> httpx.Response:
        document = {"id": f"record-{number}", "text": "tea", "embedding": VECTOR}
        return await self._store.put("/collections/tea/documents", json={"documents": [document]})


def _messages(model: str, number: int) -> dict[str, object]:
    return {"model": model, "messages": [{"role": "user", "content": f"How long does tea {number} brew?"}]}


def _outcome(response: httpx.Response) -> str:
    """Status and code of an error; the text of the load balancer's own."""
    try:
        body = response.json()
    except ValueError:
        return f"{response.status_code} {response.text}"
    return f"{response.status_code} {body.get('code') or body.get('error', {}).get('code')}"


@dataclass
class System:
    """The services of a test.

    Attributes:
        gateways: the replicas of the gateway.
        stores: the replicas of the store.
        postgres: the gateways' database.
        client: calls the gateways.
        store: calls the stores.
    """

    gateways: list[Replica]
    stores: list[Replica]
    postgres: Postgres
    client: httpx.AsyncClient
    store: httpx.AsyncClient


@asynccontextmanager
async def system(folder: Path) -> AsyncIterator[System]:
    """Start Chroma, PostgreSQL, the upstream, and all replicas behind load balancers."""
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(running_postgres())
        upstream = stack.enter_context(fake_upstream())
        chroma = start_chroma(folder)
        stack.callback(chroma.stop)
        ports = [free_port() for _ in range(STORES + GATEWAYS)]
        urls = [f"http://127.0.0.1:{port}" for port in ports]
        stores = await stack.enter_async_context(load_balancer(urls[:STORES]))
        gateways = await stack.enter_async_context(load_balancer(urls[STORES:]))
        of_store = {
            "RAGSTORE_CHROMA_URL": chroma.url,
            "RAGSTORE_RESERVED_PREFIXES": "none",
            "RAGSTORE_DRAIN_SECONDS": DRAIN_SECONDS,
        }
        of_gateway = {
            "RAGSTORE_URL": stores.url,
            "RAGSTORE_GATEWAY_DATABASE_URL": postgres.create_database(),
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "RAGSTORE_GATEWAY_MODEL": "m",
            "RAGSTORE_GATEWAY_DRAIN_SECONDS": DRAIN_SECONDS,
        }

        async def started(start: Callable[..., Served], port: int, environ: dict[str, str]) -> Replica:
            own = folder / str(port)
            own.mkdir()
            replica = Replica(lambda: start(own, environ, port=port))
            stack.push_async_callback(replica.stop)
            await replica.start()
            return replica

        found = System(
            stores=[await started(start_service, port, of_store) for port in ports[:STORES]],
            gateways=[await started(start_gateway, port, of_gateway) for port in ports[STORES:]],
            postgres=postgres,
            client=await stack.enter_async_context(client_of(gateways.url)),
            store=await stack.enter_async_context(client_of(stores.url)),
        )
        yield found


async def rolled(running: System, books: Books, requests: int, away_seconds: float) -> None:
    """Restart all replicas in turn. PostgreSQL is stopped when the first of each kind is ready again.

    Args:
        requests: number of requests after which the load may end.
        away_seconds: how long PostgreSQL is away.
    """

    async def outage() -> None:
        books.away = True
        await asyncio.to_thread(running.postgres.stop)
        await asyncio.sleep(away_seconds)
        await asyncio.to_thread(running.postgres.start)
        await asyncio.sleep(RECOVERY_SECONDS)
        books.away = False

    async def restart(replica: Replica) -> None:
        await replica.stop()
        await replica.start()

    await restart(running.gateways[0])
    await restart(running.stores[0])
    away = asyncio.create_task(outage())
    await asyncio.sleep(5)
    await asyncio.gather(restart(running.stores[1]), restart(running.gateways[1]))
    await away
    await restart(running.gateways[2])
    await until(lambda: books.requests.total() >= requests, END_SECONDS)


async def campaign(folder: Path, requests: int, away_seconds: float) -> tuple[Books, list[str]]:
    """Run the whole test.

    Returns:
        The requests, and the names of accepted documents that are not complete and found.
    """
    books, stopped = Books(), asyncio.Event()
    async with system(folder) as running:
        base = await Base.create(running.client, name="teas")
        await base.completed("first", "Green tea brews for two minutes.")
        body = {"name": "ops", "model": "m", "workflow": ["teas"], "tasks": [{"id": "t", "enableWorkflowRag": True}]}
        (await running.client.post("/ragstore/assistants", json=body)).raise_for_status()
        (await running.store.post("/collections", json={"name": "tea"})).raise_for_status()
        load = Load(running.client, running.store, base, books)
        async with asyncio.TaskGroup() as tasks:
            for seed in range(1, CLIENTS + 1):
                tasks.create_task(load.work(seed, stopped))
            await rolled(running, books, requests, away_seconds)
            stopped.set()
        states = {name: (await base.ended(id, END_SECONDS))["status"] for name, id in books.ingestions.items()}
        listed = [each["name"] for each in await base.documents(limit=MAX_LISTED)]
    lost = [name for name, state in states.items() if state != "completed" or name not in listed]
    return books, lost


def main() -> int:
    """Run the test, and print its findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=900)
    parser.add_argument("--away-seconds", type=float, default=55.0)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        books, lost = asyncio.run(campaign(Path(folder), options.requests, options.away_seconds))
    print(f"{books.requests.total()} requests in {time.monotonic() - began:.0f} s: {json.dumps(books.requests)}")
    for (kind, phase, outcome), count in sorted(books.failures.items()):
        print(f"| {kind} | {phase} | {outcome} | {count} |")
    print(f"{len(books.ingestions)} documents accepted, {len(lost)} lost {lost}; unexpected: {dict(books.unexpected)}")
    print(f"load {os.getloadavg()[0]:.1f}")
    return 1 if lost or books.unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
