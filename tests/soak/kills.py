"""Kills the gateway with SIGKILL during ingestion, again and again, and checks what is left.

`make kills KILLS="--database postgresql --kills 30"` runs this. Documents are sent, some of them in place of earlier
ones. The gateway is killed as soon as an ingestion has reached a certain step, after a random wait, and started again.
With SQLite, the store runs in the process of the gateway and is killed with it; with PostgreSQL, it is another process.

After each kill and at the end, this checks that

- each document that was accepted is there, with the content that was accepted last (lost: 0),
- each document that searches find has all of its chunks (partly visible: 0), each of them once (duplicated: 0),
- no other chunk is left (left over: 0),
- no text was embedded again whose vector was recorded when the gateway was killed (embedded again: 0).

The exit code is 1 when something is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support.gateways import start_gateway
from tests.support.ingestion import Base, EmbeddingServer, State, embedding_server, text_of
from tests.support.ledger import all_documents
from tests.support.postgres import running_postgres
from tests.support.processes import kill
from tests.support.servers import Served, free_port, running, start_service

STEPS: Final = ("accept", "extract", "split", "embed", "write", "publish", "clean up")
SIZES: Final = (3, 70, 150)
LEASE_SECONDS: Final = 1.5
REACH_SECONDS: Final = 20.0
END_SECONDS: Final = 120.0


@dataclass
class Findings:
    """The findings of a campaign.

    Attributes:
        kills: number of kills by step.
        reached: number of ingestions that were in a step at a kill, by step.
        accepted: number of accepted documents.
        lost: documents that were accepted and are not there.
        partly_visible: documents of which searches find some chunks only.
        duplicated: chunks that are there twice.
        left_over: chunks that belong to no current revision.
        embedded_again: texts that were embedded again although their vectors were recorded.
    """

    kills: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    accepted: int = 0
    lost: list[str] = field(default_factory=list)
    partly_visible: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    left_over: list[str] = field(default_factory=list)
    embedded_again: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[str]:
        """Everything that is wrong."""
        return [*self.lost, *self.partly_visible, *self.duplicated, *self.left_over, *self.embedded_again]

    def table(self) -> str:
        """The findings as a table."""
        lines = ["killed in | kills | ingestions in this step"]
        lines += [f"{step} | {self.kills[step]} | {self.reached[step]}" for step in STEPS]
        lines += [
            "",
            f"accepted {self.accepted}, kills {self.kills.total()}, lost {len(self.lost)}, "
            f"duplicated {len(self.duplicated)}, partly visible {len(self.partly_visible)}, "
            f"left over {len(self.left_over)}, embedded again {len(self.embedded_again)}",
        ]
        return "\n".join(lines)


class Campaign:
    """Kills a gateway.

    Args:
        folder: an empty folder for its data.
        embeddings: embeds the documents.
        postgres_url: PostgreSQL for the gateway's state; empty for SQLite.
        store_url: the store; empty for one in the gateway's process.
        seed: determines the documents and the waits.
        sizes: numbers of chunks of the documents.
    """

    def __init__(
        self,
        folder: Path,
        embeddings: EmbeddingServer,
        postgres_url: str,
        store_url: str,
        seed: int,
        sizes: Sequence[int],
    ) -> None:
        self.findings = Findings()
        self._folder = folder
        self._embeddings = embeddings
        self._store_url = store_url
        self._random = random.Random(seed)
        self._sizes = sizes
        self._port = free_port()
        self._environ = {
            "RAGSTORE_GATEWAY_INGESTION_LEASE_SECONDS": str(LEASE_SECONDS),
            "RAGSTORE_GATEWAY_DATABASE_URL": postgres_url,
            "RAGSTORE_URL": store_url,
            "RAGSTORE_GATEWAY_EMBEDDING_CACHE_BYTES": "0",
        }
        self._state = State.of(folder, postgres_url)
        self._expected: dict[str, str] = {}
        self._recorded: set[str] = set()
        self._counted: Counter[str] = Counter()
        self._base_id = ""

    def start(self) -> Served:
        """Start the gateway."""
        return start_gateway(self._folder, self._environ, port=self._port)

    async def run(self, steps: Sequence[str], *, wait_for_all: bool) -> None:
        """Kill the gateway once in each of the steps.

        Args:
            wait_for_all: whether all ingestions end before the next kill.
        """
        served = await asyncio.to_thread(self.start)
        try:
            async with self._client() as client:
                parameters = {"baseUrl": self._embeddings.url}
                fields = {"embeddingProvider": "tei", "embeddingParameters": parameters}
                base = await Base.create(client, name="campaign", **fields)
                self._base_id = base.id
                # The first document, so that a collection exists and a later one is replaced.
                await base.completed("doc-0", self._document("doc-0", 5))
            for number, step in enumerate(steps):
                await self._load(number)
                await self._kill_in(served, step)
                served = await asyncio.to_thread(self.start)
                await self._check_visible()
                if wait_for_all or number == len(steps) - 1:
                    await self._wait_for_all()
                    await self._check_all()
        finally:
            if served.process.poll() is None:
                await asyncio.to_thread(served.stop)
            self._state.close()

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[httpx.AsyncClient]:
        url = f"http://127.0.0.1:{self._port}"
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            yield client

    def _document(self, name: str, chunks: int) -> str:
        text = text_of(f"{name} {self._random.getrandbits(40):x}", chunks)
        self._expected[name] = text
        self.findings.accepted += 1
        return text

    async def _load(self, number: int) -> None:
        """Send documents: new ones, and two in place of earlier ones."""
        async with self._client() as client:
            base = Base(client, self._base_id)
            for name in ("doc-0", f"doc-{number % 3}", f"new-{number}"):
                chunks = self._random.choice(self._sizes)
                await base.ingest(name, self._document(name, chunks))

    async def _kill_in(self, served: Served, step: str) -> None:
        """Kill the gateway when an ingestion is in a step, or soon after if it is too short to be seen."""
        deadline = time.monotonic() + REACH_SECONDS
        while time.monotonic() < deadline:
            steps = await asyncio.to_thread(self._state.steps)
            if step in steps or not steps:
                break
            await asyncio.sleep(0.002)
        await asyncio.sleep(self._random.choice((0.0, 0.0, self._random.uniform(0, 0.1))))
        kill(served)
        steps = self._state.steps()
        self.findings.kills[step] += 1
        self.findings.reached.update(steps)
        self._check_embedded()
        self._recorded |= self._state.recorded_texts()

    def _check_embedded(self) -> None:
        """Check that no text with a recorded vector was embedded again."""
        counts = Counter({text.strip(): count for text, count in self._embeddings.texts.items()})
        self.findings.embedded_again += [
            text[:40] for text in self._recorded if counts[text] > self._counted.get(text, counts[text])
        ]
        self._counted = counts

    async def _check_visible(self) -> None:
        """Check that each document that searches find is complete."""
        before = {row.id: row for row in self._state.documents()}
        found = {row.id: self._chunks_of(row.current_revision) for row in before.values()}
        after = {row.id: row.current_revision for row in self._state.documents()}
        for id, row in before.items():
            if after.get(id) != row.current_revision:
                continue  # it was replaced meanwhile
            indexes = [chunk["metadata"]["chunk_index"] for chunk in found[id]]
            if sorted(set(indexes)) != list(range(row.chunks)):
                self.findings.partly_visible.append(row.name)
            if len(set(indexes)) != len(indexes):
                self.findings.duplicated.append(row.name)

    @property
    def _url(self) -> str:
        """The address of the store."""
        return self._store_url or f"http://127.0.0.1:{self._port}"

    def _collections(self) -> list[str]:
        names = httpx.get(f"{self._url}/collections", timeout=30).json()["collections"]
        known = set(self._state.active_collections())
        return [each["name"] for each in names if each["name"] in known]

    def _chunks(self) -> list[dict[str, Any]]:
        return [chunk for name in self._collections() for chunk in all_documents(self._url, name)]

    def _chunks_of(self, revision: str) -> list[dict[str, Any]]:
        """The chunks of a revision, by one request: between two pages, the removal of others would move some."""
        params: dict[str, str | int] = {"where": json.dumps({"revision": revision}), "limit": 1000}
        pages = [
            httpx.get(f"{self._url}/collections/{name}/documents", params=params, timeout=30)
            for name in self._collections()
        ]
        return [chunk for page in pages for chunk in page.raise_for_status().json()["documents"]]

    async def _wait_for_all(self) -> None:
        deadline = time.monotonic() + END_SECONDS
        while self._state.steps():
            if time.monotonic() > deadline:
                self.findings.lost.append(f"not ended: {self._state.steps()}")
                return
            await asyncio.sleep(0.2)

    async def _check_all(self) -> None:
        """Check, without ingestions in progress, that exactly the accepted documents are there."""
        self._check_embedded()
        await self._check_visible()
        chunks = self._chunks()
        documents = {row.name: row for row in self._state.documents()}
        current = {row.current_revision for row in documents.values()}
        for name, text in self._expected.items():
            row = documents.get(name)
            own = (
                []
                if row is None
                else [chunk for chunk in chunks if chunk["metadata"].get("revision") == row.current_revision]
            )
            own.sort(key=lambda chunk: int(chunk["metadata"]["chunk_index"]))
            if [chunk["text"].strip() for chunk in own] != [line.strip() for line in text.split("\n")]:
                self.findings.lost.append(name)
        self.findings.left_over += [chunk["id"] for chunk in chunks if chunk["metadata"].get("revision") not in current]


async def campaign(
    folder: Path,
    steps: Sequence[str],
    *,
    postgres_url: str = "",
    seed: int = 0,
    wait_for_all: bool = True,
    sizes: Sequence[int] = SIZES,
) -> Findings:
    """Run a campaign.

    Args:
        folder: an empty folder.
        steps: the steps to kill the gateway in.
        postgres_url: PostgreSQL for the gateway's state, with a store of its own; empty for SQLite.
        seed: determines the documents and the waits.
        wait_for_all: whether all ingestions end before the next kill.
        sizes: numbers of chunks of the documents.
    """
    async with AsyncExitStack() as stack:
        embeddings = await stack.enter_async_context(embedding_server(0.05))
        store_url = ""
        if postgres_url:
            (folder / "store").mkdir()
            store = start_service(folder / "store", {"RAGSTORE_RESERVED_PREFIXES": "none"})
            store_url = stack.enter_context(running(store)).url
        run = Campaign(folder, embeddings, postgres_url, store_url, seed, sizes)
        await run.run(steps, wait_for_all=wait_for_all)
    return run.findings


@contextmanager
def _database(kind: str) -> Iterator[str]:
    if kind == "sqlite":
        yield ""
        return
    with running_postgres() as server:
        yield server.create_database()


def main() -> int:
    """Run a campaign, and print its findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 16))
    options = parser.parse_args()
    steps = [STEPS[number % len(STEPS)] for number in range(options.kills)]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name, _database(options.database) as url:
        folder = Path(name) / "gateway"
        folder.mkdir()
        findings = asyncio.run(campaign(folder, steps, postgres_url=url, seed=options.seed))
    print(f"database {options.database}, seed {options.seed}, {time.monotonic() - started:.0f} s")
    print(findings.table())
    for fault in findings.faults:
        print("wrong:", fault)
    return 1 if findings.faults else 0


if __name__ == "__main__":
    sys.exit(main())
