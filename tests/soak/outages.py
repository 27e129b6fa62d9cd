"""Restarts the embedding provider in the middle of an ingestion, and checks that no document is lost.

`python -m tests.soak.outages --documents 1000` runs this. Documents are sent to a gateway. When a part of them is
embedded, the provider is stopped: its connections are closed, and others are refused. It is started again after a
while, responds with 503 while it loads its model, and then with vectors. The exit code is 1 if a document is not
complete.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.gateways import start_gateway
from tests.support.ingestion import WAIT_SECONDS, Base, EmbeddingServer, client_of, embedding_server, until
from tests.support.servers import Served, running

RETRIED: Final = "ingestion waits"
END_SECONDS: Final = 1800.0

MANY_ATTEMPTS: Final = 3
"""Attempts that are all for a response without usable vectors: it is not repeated after the last of them."""


@dataclass
class Outage:
    """The findings.

    Attributes:
        documents: number of documents.
        embedded_before: number of texts that were embedded before the provider was stopped.
        away_seconds: how long the provider gave no vectors.
        states: number of ingestions by their last state.
    """

    documents: int
    embedded_before: int = 0
    away_seconds: float = 0.0
    states: Counter[str] = field(default_factory=Counter)


def retries(served: Served) -> list[int]:
    """The attempts that were repeated so far, from the log.

    Args:
        served: the gateway.
    """
    lines = [line for line in served.log.read_text().splitlines() if RETRIED in line]
    return [int(json.loads(line)["attempt"]) for line in lines]


async def restarted(served: Served, server: EmbeddingServer, away_seconds: float = 0.0) -> float:
    """Restart a provider. It is away until calls of ingestions were repeated more often than for any other error.

    Args:
        served: the gateway.
        server: the provider.
        away_seconds: the minimum.

    Returns:
        How long it gave no vectors, in seconds.
    """
    started = time.monotonic()
    await server.stop()
    await until(lambda: bool(retries(served)))
    server.is_loading = True
    await server.start()
    await until(
        lambda: max(retries(served)) >= MANY_ATTEMPTS and time.monotonic() >= started + away_seconds,
        WAIT_SECONDS + away_seconds,
    )
    server.is_loading = False
    return time.monotonic() - started


async def campaign(folder: Path, documents: int, away_seconds: float = 0.0) -> Outage:
    """Restart the provider when a third of the documents is embedded.

    Args:
        folder: an empty folder for the gateway.
        documents: number of documents.
        away_seconds: how long the provider is away at least.
    """
    found = Outage(documents)
    with running(start_gateway(folder, {"RAGSTORE_GATEWAY_EMBEDDING_CACHE_BYTES": "0"})) as served:
        async with embedding_server() as server, client_of(served.url) as client:
            parameters = {"baseUrl": server.url}
            base = await Base.create(client, name="outage", embeddingProvider="tei", embeddingParameters=parameters)
            ids = [await base.ingest(f"doc-{number}", f"tea {number}") for number in range(documents // 3)]
            # The others are sent while some are embedded, as by any caller.
            outage: asyncio.Task[float] | None = None
            for number in range(documents // 3, documents):
                if outage is None and server.texts.total() >= documents // 6:
                    found.embedded_before = server.texts.total()
                    outage = asyncio.create_task(restarted(served, server, away_seconds))
                ids.append(await base.ingest(f"doc-{number}", f"tea {number}"))
            if outage is None:
                found.embedded_before = server.texts.total()
                outage = asyncio.create_task(restarted(served, server, away_seconds))
            found.away_seconds = await outage
            for each in ids:
                found.states[(await base.ended(each, END_SECONDS))["status"]] += 1
    return found


def main() -> int:
    """Run a campaign, and print its findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--away-seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(campaign(Path(folder), options.documents, options.away_seconds))
    print(
        f"{found.documents} documents, {found.embedded_before} texts embedded before, "
        f"away {found.away_seconds:.0f} s: {dict(found.states)}"
    )
    return 0 if found.states == {"completed": found.documents} else 1


if __name__ == "__main__":
    sys.exit(main())
