"""Latency of searches on an idle gateway, and while documents are ingested: by the gateway itself, or by a worker.

    python -m benchmarks.searches_beside_ingestion --documents 1000

All processes share one PostgreSQL, one store, and a server of embeddings that responds immediately. A client sends one
search after the other to a base of 1,000 documents, while another one ingests documents into another base.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from benchmarks.ingestion import CHUNKING, SMALL_CHARACTERS, texts_of
from tests.support.gateways import start_gateway
from tests.support.ingestion import Base, EmbeddingServer, embedding_server
from tests.support.postgres import running_postgres
from tests.support.servers import Served, running, start_service

IDLE_SECONDS = 20.0
STORED = 1000
UPLOADS = 4
"""Number of uploads in flight."""


@contextmanager
def gateway_of(folder: Path, workers: int) -> Iterator[Served]:
    """A gateway, with workers beside it.

    Args:
        folder: an empty folder.
        workers: number of workers; 0 if the gateway runs the jobs itself.
    """
    with ExitStack() as stack:
        (folder / "store").mkdir()
        store = stack.enter_context(running(start_service(folder / "store", {"RAGSTORE_RESERVED_PREFIXES": "none"})))
        environ = {
            "RAGSTORE_URL": store.url,
            "RAGSTORE_GATEWAY_DATABASE_URL": stack.enter_context(running_postgres()).create_database(),
            "RAGSTORE_GATEWAY_INGESTION_WORKERS": str(workers > 0).lower(),
        }
        for number in range(workers):
            (folder / str(number)).mkdir()
            stack.enter_context(running(start_gateway(folder / str(number), environ, command="worker")))
        (folder / "gateway").mkdir()
        yield stack.enter_context(running(start_gateway(folder / "gateway", environ)))


async def ingest(base: Base, texts: Sequence[str], name: str) -> None:
    """Ingest texts, and wait for the last one."""
    slots = asyncio.Semaphore(UPLOADS)

    async def send(number: int, text: str) -> str:
        async with slots:
            return await base.ingest(f"{name} {number}", text)

    for each in await asyncio.gather(*(send(number, text) for number, text in enumerate(texts))):
        await base.ended(each, 1800)


async def search(base: Base, until: asyncio.Event) -> list[float]:
    """Search until an event.

    Returns:
        The time of each search, in seconds.
    """
    times: list[float] = []
    while not until.is_set():
        started = time.perf_counter()
        await base.client.post(f"{base.path}/query", json={"query": f"green tea {len(times)}", "maxResults": 5})
        times.append(time.perf_counter() - started)
    return times


def shown(times: Sequence[float]) -> str:
    """The number of searches, their median and their 99th percentile."""
    ordered = sorted(times)
    median, p99 = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return f"{len(ordered)} | {1000 * median:.1f} ms | {1000 * p99:.1f} ms"


async def measure_one(workers: int, documents: int, embeddings: EmbeddingServer) -> None:
    """Measure a gateway, and print its rows."""
    with tempfile.TemporaryDirectory() as folder, gateway_of(Path(folder), workers) as served:
        async with (
            httpx.AsyncClient(base_url=served.url, timeout=120) as client,
            httpx.AsyncClient(base_url=served.url, timeout=120) as searcher,
        ):
            provider = {"embeddingProvider": "tei", "embeddingParameters": {"baseUrl": embeddings.url}}
            stored = await Base.create(client, name="stored", **provider, **CHUNKING)
            await ingest(stored, texts_of(STORED, SMALL_CHARACTERS), "stored")
            other = await Base.create(client, name="other", **provider, **CHUNKING)
            await other.completed("first", "tea")
            searched = Base(searcher, stored.id)
            over = asyncio.Event()
            asyncio.get_running_loop().call_later(IDLE_SECONDS, over.set)
            print(f"| {workers} workers, idle | {shown(await search(searched, over))} | |", flush=True)
            over = asyncio.Event()
            searches = asyncio.create_task(search(searched, over))
            started = time.perf_counter()
            await ingest(other, texts_of(documents, SMALL_CHARACTERS), "doc")
            rate = documents / (time.perf_counter() - started)
            over.set()
            print(f"| {workers} workers, ingesting | {shown(await searches)} | {rate:.1f} |", flush=True)
            print(f"load {os.getloadavg()[0]:.1f}", flush=True)


async def measure(options: argparse.Namespace) -> None:
    """Measure everything, and print the table."""
    print("| | searches | median | 99 % | documents/s |")
    print("| --- | ---: | ---: | ---: | ---: |")
    async with embedding_server() as embeddings:
        for workers in options.workers:
            await measure_one(workers, options.documents, embeddings)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1])
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
