"""Latency of searches on an idle gateway, and while documents are ingested.

    python -m benchmarks.searches_beside_ingestion --documents 1000

One process sends one search after the other to a base of 1,000 documents, and serves embeddings, which it responds to
immediately. Another one ingests documents of 1 kB into another base, one by one and in batches. Gateways: `sqlite`,
with the store in its process, as a gateway is by default; `model`, the same with the default model in place of the
server of embeddings; `postgresql`, which runs the jobs itself; and `worker`, with a worker beside it. The last two have
a store and a PostgreSQL of their own.
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
from typing import Final

import httpx

from benchmarks.ingestion import BATCH, CHUNKING, SMALL_CHARACTERS, cpu_of, ingest_batch, texts_of
from benchmarks.repeated_searches import searcher
from ragstore_gateway.embeddings.builtin import OF_NEW_BASES
from tests.support.gateways import start_gateway
from tests.support.ingestion import Base
from tests.support.postgres import running_postgres
from tests.support.servers import Served, running, start_service

IDLE_SECONDS: Final = 10.0
STORED: Final = 1000
UPLOADS: Final = 4
"""Number of uploads in flight."""

GATEWAYS: Final = ("sqlite", "model", "postgresql", "worker")
LOADS: Final = {"one by one": 1, "in batches": BATCH}
"""Number of documents of a request."""


@contextmanager
def gateway_of(folder: Path, kind: str) -> Iterator[Served]:
    """A gateway, with the processes that it needs.

    Args:
        folder: an empty folder.
    """
    with ExitStack() as stack:
        environ: dict[str, str] = {}
        if kind in ("postgresql", "worker"):
            (folder / "store").mkdir()
            store = start_service(folder / "store", {"RAGSTORE_RESERVED_PREFIXES": "none"})
            environ = {
                "RAGSTORE_URL": stack.enter_context(running(store)).url,
                "RAGSTORE_GATEWAY_DATABASE_URL": stack.enter_context(running_postgres()).create_database(),
                "RAGSTORE_GATEWAY_INGESTION_WORKERS": str(kind == "worker").lower(),
            }
        if kind == "worker":
            (folder / "worker").mkdir()
            stack.enter_context(running(start_gateway(folder / "worker", environ, command="worker")))
        (folder / "gateway").mkdir()
        yield stack.enter_context(running(start_gateway(folder / "gateway", environ)))


async def ingest(base: Base, texts: Sequence[str], per_request: int) -> None:
    """Ingest texts, and wait for the last one.

    Args:
        per_request: number of texts of a request.
    """
    slots = asyncio.Semaphore(UPLOADS)

    async def send(first: int) -> None:
        async with slots:
            if per_request == 1:
                await base.ingest(f"doc {first}", texts[first])
            else:
                await ingest_batch(base, first, [text.encode() for text in texts[first : first + per_request]])

    await asyncio.gather(*(send(first) for first in range(0, len(texts), per_request)))
    while (progress := await base.progress())["waiting"] or progress["processing"]:  # noqa: ASYNC110  # another process ends it
        await asyncio.sleep(0.1)
    states = (await base.client.get(f"{base.path}/documents", params={"limit": 1})).json()["states"]
    assert states["completed"] == len(texts), states  # noqa: S101  # the figures would be wrong


def milliseconds(times: Sequence[float], share: float) -> float:
    """A quantile of times.

    Args:
        times: the times in seconds, in order of their size.
        share: 0.5 for the median.
    """
    return 1000 * times[int(len(times) * share)]


async def measure_one(kind: str, options: argparse.Namespace) -> None:
    """Measure a gateway, and print its rows."""
    phases: list[tuple[str, float, float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder, gateway_of(Path(folder), kind) as served:
        async with searcher() as searching, httpx.AsyncClient(base_url=served.url, timeout=120) as client:
            provider = {"embeddingProvider": "tei", "embeddingParameters": {"baseUrl": searching.embeddings_url}}
            if kind == "model":
                provider = {"embeddingProvider": "local", "embeddingParameters": {"model": OF_NEW_BASES}}
            fields = {**provider, **CHUNKING}
            stored = await Base.create(client, name="stored", **fields)
            await ingest(stored, texts_of(STORED, SMALL_CHARACTERS), BATCH)
            searching.begin(served.url + stored.path)
            await asyncio.sleep(2)
            texts = texts_of(options.documents, SMALL_CHARACTERS)
            for turn in range(options.rounds):
                for load, per_request in LOADS.items():
                    started, cpu = time.monotonic(), cpu_of([served.process.pid])
                    await asyncio.sleep(IDLE_SECONDS)
                    phases.append(("idle", started, time.monotonic(), 0.0, cpu_of([served.process.pid]) - cpu))
                    base = await Base.create(client, name=f"{load} {turn}", **fields)
                    started, cpu = time.monotonic(), cpu_of([served.process.pid])
                    await ingest(base, texts, per_request)
                    ended = time.monotonic()
                    rate = len(texts) / (ended - started)
                    phases.append((load, started, ended, rate, cpu_of([served.process.pid]) - cpu))
            await searching.end()
    idle = 0.0
    for load in ("idle", *LOADS):
        own = [phase for phase in phases if phase[0] == load]
        times = sorted(seconds for _, start, end, _, _ in own for seconds in searching.times(start, end))
        p99 = milliseconds(times, 0.99)
        idle = idle or p99
        rate = sum(phase[3] for phase in own) / len(own)
        print(
            f"| {kind}, {load} | {len(times)} | {milliseconds(times, 0.5):.1f} ms | {p99:.1f} ms | {p99 / idle:.2f} | "
            f"{1000 * times[-1]:.1f} ms | {rate:.1f} | {sum(phase[4] for phase in own):.1f} s |",
            flush=True,
        )
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)


async def measure(options: argparse.Namespace) -> None:
    """Measure everything, and print the table."""
    print("| | searches | median | 99 % | ratio | longest | documents/s | CPU of the gateway |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind in options.gateways:
        await measure_one(kind, options)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--gateways", nargs="+", choices=GATEWAYS, default=GATEWAYS)
    parser.add_argument("--rounds", type=int, default=3, help="how often each load is measured")
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
