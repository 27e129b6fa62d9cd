"""Documents per second of 1, 2 and 3 gateways over one PostgreSQL.

`python -m benchmarks.ingestion` starts PostgreSQL, a store and a server of embeddings that takes a second for each
response, as one of a model does. Then it sends documents to the first gateway, and waits until all are complete. The
time of the embeddings is what replicas share; on a machine with few cores, they also share the cores.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import httpx

from tests.support.gateways import start_gateway
from tests.support.ingestion import Base, embedding_server, text_of
from tests.support.postgres import running_postgres
from tests.support.servers import running, start_service


async def throughput(
    folder: Path, database_url: str, replicas: int, options: argparse.Namespace
) -> tuple[float, float]:
    """Measure a number of gateways.

    Args:
        folder: an empty folder.
        database_url: an empty database.
        replicas: number of gateways.
        options: the options of the command.

    Returns:
        Documents per second, and the median time of a request that sends one, in milliseconds.
    """
    with ExitStack() as stack:
        (folder / "store").mkdir(parents=True)
        store = stack.enter_context(running(start_service(folder / "store")))
        environ = {
            "RAGSTORE_URL": store.url,
            "RAGSTORE_GATEWAY_DATABASE_URL": database_url,
            "RAGSTORE_GATEWAY_INGESTION_CONCURRENCY": str(options.concurrency),
            "RAGSTORE_GATEWAY_EMBEDDING_CONCURRENCY": str(options.concurrency),
        }
        urls = []
        for number in range(replicas):
            (folder / str(number)).mkdir()
            urls.append(stack.enter_context(running(start_gateway(folder / str(number), environ))).url)
        async with (
            embedding_server(options.embedding_seconds) as embeddings,
            httpx.AsyncClient(base_url=urls[0], timeout=60) as client,
        ):
            provider = {"embeddingProvider": "tei", "embeddingParameters": {"baseUrl": embeddings.url}}
            # Fairness leaves a quarter of the jobs of a process to other bases.
            bases = [await Base.create(client, name=f"base {number}", **provider) for number in range(4)]
            for base in bases:
                await base.completed("first", text_of("first", options.chunks))
            started = time.perf_counter()
            accepted = []
            sent = []
            for number in range(options.documents):
                base = bases[number % len(bases)]
                before = time.perf_counter()
                accepted.append((base, await base.ingest(f"doc {number}", text_of(f"doc {number}", options.chunks))))
                sent.append(time.perf_counter() - before)
            for base, ingestion in accepted:
                found = await base.ended(ingestion, 600)
                if found["status"] != "completed":
                    raise RuntimeError(found["status"])
            seconds = time.perf_counter() - started
    return options.documents / seconds, sorted(sent)[len(sent) // 2] * 1000


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--documents", type=int, default=120)
    parser.add_argument("--chunks", type=int, default=10)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--embedding-seconds", type=float, default=1.0)
    options = parser.parse_args()
    first = 0.0
    print("gateways | documents/s | ratio | 202 after, median")
    for count in options.replicas:
        with tempfile.TemporaryDirectory() as folder, running_postgres() as server:
            rate, sent = asyncio.run(throughput(Path(folder), server.create_database(), count, options))
        first = first or rate
        print(f"{count} | {rate:.1f} | {rate / first:.2f} | {sent:.0f} ms", flush=True)


if __name__ == "__main__":
    main()
