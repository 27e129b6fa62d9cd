"""Measures how the cost of calls grows with the number of documents, of the service and of Chroma.

    python -m benchmarks.growth --folder DIR                              # Chroma's files; filled on the first run
    python -m benchmarks.growth --folder DIR --sizes 10000 1000000

Each size has a collection of its own. For each, Chroma's server is started twice: its own calls are measured first, and
then the calls of the service's store, in a process of its own. Embeddings have 32 dimensions, texts 100 characters.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import httpx
import numpy as np

from ragstore.app import create_store
from ragstore.model.documents import EVERYTHING, Batch, Selection, Write
from ragstore.model.filters.condition import Condition
from ragstore.model.metadata import Metadata
from ragstore.model.queries import Query
from ragstore.operations.list_documents import Cursor, Page, list_page
from ragstore.operations.write_documents import write_batch
from ragstore.settings import Settings
from ragstore.store.protocol import Store
from tests.support.servers import running, start_chroma

DIMENSION: Final = 32
BATCH: Final = 2000
REPEATS: Final = 7
MIN_REPEATS: Final = 3
MAX_ROW_MS: Final = 10_000
LIMIT: Final = 100
PATH: Final = "/api/v2/tenants/default_tenant/databases/default_database/collections"

SYNC_THRESHOLD: Final = 20_000
"""Chroma saves the whole index that often. With its default of 1,000, filling takes most of its time for saves."""

ROWS: Final = (
    *("first page, with total", "last page by offset", "last page by cursor"),
    *("first page of a filter, half match", "its second page", "its last page by offset", "its last page by cursor"),
    *("query", "query, half match, first of a filter", "query, half match, later ones", "query, ten match"),
    *("deletion of one id", "deletion by a filter, ten match"),
)
MEMORY: Final = ("memory of the service, MiB", "memory of Chroma, MiB")

CALLS: Final = 2 * REPEATS
"""Ids and filters of deletions are numbered: the first half is for Chroma's own calls, the second for the service."""


def name_of(size: int) -> str:
    """The name of the collection of a size."""
    return f"growth-{size}"


def documents(start: int, count: int) -> Batch:
    """Documents, half of which match a filter, and ten of which have the same `doc`."""
    generator = np.random.default_rng(start)
    rows = generator.normal(size=(count, DIMENSION)).astype(np.float32)
    ids = [f"d{row}" for row in range(start, start + count)]
    metadatas: list[Metadata] = [
        {"half": row % 2 == 0, "doc": f"doc{row // 10}"} for row in range(start, start + count)
    ]
    return Batch(ids, ["x" * 100] * count, metadatas, rows)


def query_vectors() -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Embeddings of queries."""
    return np.random.default_rng(0).normal(size=(100, DIMENSION)).astype(np.float32)


@contextmanager
def opened(url: str) -> Iterator[tuple[asyncio.AbstractEventLoop, Store]]:
    """The service's store over a Chroma server."""
    loop = asyncio.new_event_loop()
    settings = Settings(chroma_url=url, chroma_timeout_seconds=600, index_sample_every=0, sync_threshold=SYNC_THRESHOLD)
    store = create_store(settings)
    loop.run_until_complete(store.start())
    try:
        yield loop, store
    finally:
        loop.run_until_complete(store.close())


def fill(url: str, sizes: list[int]) -> None:
    """Write the documents that the collections lack."""

    async def write(store: Store, size: int) -> None:
        names = [collection.name for collection in await store.list_collections(None, 0)]
        if name_of(size) not in names:
            await store.create_collection(name_of(size), {}, "cosine")
        stored = await store.count(name_of(size))
        if stored > size - CALLS * 11:  # it was full, and measured
            return
        began = time.perf_counter()
        for start in range(stored, size, BATCH):
            batch = documents(start, min(BATCH, size - start))
            await write_batch(store, name_of(size), Write("upsert", batch))
            if (start + BATCH) % 50_000 == 0:
                print(f"{size}: {start + BATCH} after {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)

    with opened(url) as (loop, store):
        for size in sizes:
            loop.run_until_complete(write(store, size))


# -- Chroma's own calls -----------------------------------------------------------------------


@dataclass(frozen=True)
class Chroma:
    """A collection of a Chroma server."""

    client: httpx.Client
    path: str

    def post(self, call: str, body: dict[str, object]) -> object:
        """The response of a call."""
        return self.client.post(f"{self.path}/{call}", json=body).raise_for_status().json()

    def page(self, offset: int, where: dict[str, object] | None = None) -> None:
        """A page with its total. All ids of a filter are the only way to its exact total."""
        include = ["documents", "metadatas"]
        self.post("get", {"limit": LIMIT, "offset": offset, "where": where, "include": include})
        if where is None:
            self.client.get(f"{self.path}/count").raise_for_status()
        else:
            self.post("get", {"where": where, "include": []})

    def query(self, embedding: list[float], where: dict[str, object] | None = None) -> None:
        """The five nearest documents."""
        include = ["documents", "metadatas", "distances"]
        self.post("query", {"query_embeddings": [embedding], "n_results": 5, "where": where, "include": include})


def measure_chroma(url: str, size: int) -> list[float | None]:
    """The figures of Chroma's own calls, in the order of `ROWS`. None: Chroma has no such call."""
    half: dict[str, object] = {"half": {"$eq": True}}
    vectors = [[float(number) for number in row] for row in query_vectors()]

    def of_doc(number: int) -> dict[str, object]:
        return {"doc": {"$eq": f"doc{number}"}}

    with httpx.Client(base_url=url, timeout=600) as client:
        found = client.get(f"{PATH}/{name_of(size)}").raise_for_status().json()
        chroma = Chroma(client, f"{PATH}/{found['id']}")
        return [
            clocked(lambda _: chroma.page(0)),
            clocked(lambda _: chroma.page(size - 2 * LIMIT)),
            None,
            clocked(lambda _: chroma.page(0, half)),
            clocked(lambda _: chroma.page(LIMIT, half)),
            clocked(lambda _: chroma.page(size // 2 - 2 * LIMIT, half)),
            None,
            clocked(lambda index: chroma.query(vectors[index])),
            clocked(lambda index: chroma.query(vectors[index], half)),
            clocked(lambda index: chroma.query(vectors[index], half)),
            clocked(lambda index: chroma.query(vectors[index], of_doc(index))),
            clocked(lambda index: chroma.post("delete", {"ids": [f"d{index}"]})),
            clocked(lambda index: chroma.post("delete", {"where": of_doc(100 + index)})),
        ]


def clocked(call: Callable[[int], object]) -> float:
    """Median milliseconds of a call; of fewer calls if they take long."""
    times: list[float] = []
    while len(times) < MIN_REPEATS or (len(times) < REPEATS and sum(times) < MAX_ROW_MS):
        began = time.perf_counter()
        call(len(times))
        times.append((time.perf_counter() - began) * 1000)
    return median(times)


# -- the service ------------------------------------------------------------------------------


def measure_first_query(url: str, size: int, condition: Condition) -> float:
    """Median milliseconds of the first query with a filter, each in a store that knows nothing of it."""
    name, vectors = name_of(size), query_vectors()
    times: list[float] = []
    while len(times) < MIN_REPEATS:
        with opened(url) as (loop, store):
            loop.run_until_complete(store.query(name, [Query(vectors[-1], 5)]))
            began = time.perf_counter()
            loop.run_until_complete(store.query(name, [Query(vectors[len(times)], 5, condition)]))
            times.append((time.perf_counter() - began) * 1000)
    return median(times)


def measure_service(url: str, size: int) -> list[float]:
    """The figures of the service's store, in the order of `ROWS`."""
    name, everything, half = name_of(size), EVERYTHING, Selection(condition=Condition.parse({"half": True}))
    vectors = query_vectors()
    first_query = measure_first_query(url, size, half.condition)
    with opened(url) as (loop, store):
        stored = loop.run_until_complete(store.count(name))
        # Chroma's own deletions moved the documents behind them.
        removed = size - stored
        matching = len(loop.run_until_complete(store.get_ids(name, half)))
        last = loop.run_until_complete(_cursor_before_last(store, name, everything, stored))
        last_half = loop.run_until_complete(_cursor_before_last(store, name, half, matching))
        print(f"{size}: {removed} were deleted", file=sys.stderr)

        def timed(call: Callable[[int], Awaitable[object]]) -> float:
            async def awaited(index: int) -> None:
                await call(index)

            return clocked(lambda index: loop.run_until_complete(awaited(index)))

        def listed(selection: Selection, offset: int, after: Cursor | None = None) -> float:
            page = Page(LIMIT, offset, False, True, after=after)
            return timed(lambda _: list_page(store, name, selection, page))

        def of_doc(number: int) -> Condition:
            return Condition.parse({"doc": f"doc{number}"})

        return [
            listed(everything, 0),
            listed(everything, stored - 2 * LIMIT),
            listed(everything, 0, last),
            listed(half, 0),
            listed(half, LIMIT),
            listed(half, matching - 2 * LIMIT),
            listed(half, 0, last_half),
            timed(lambda index: store.query(name, [Query(vectors[index], 5)])),
            first_query,
            timed(lambda index: store.query(name, [Query(vectors[index], 5, half.condition)])),
            timed(lambda index: store.query(name, [Query(vectors[index], 5, of_doc(1000 - CALLS + index))])),
            timed(lambda index: store.delete(name, Selection(ids=(f"d{REPEATS + index}",)))),
            timed(lambda index: store.delete(name, Selection(condition=of_doc(100 + REPEATS + index)))),
        ]


async def _cursor_before_last(store: Store, name: str, selection: Selection, total: int) -> Cursor:
    """The cursor after which the last full page begins."""
    position = total - 2 * LIMIT
    found = await store.get(name, selection, limit=1, offset=position - 1)
    return Cursor(position, found.ids[0], total)


# -- the table --------------------------------------------------------------------------------


def peak_mib(process: int | str) -> float:
    """The peak of the memory of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def measure(folder: Path, size: int) -> list[str]:
    """The cells of a size: the service, and Chroma in parentheses."""
    with running(start_chroma(folder)) as chroma:
        own = measure_chroma(chroma.url, size)
        own_memory = peak_mib(chroma.process.pid)
    with running(start_chroma(folder)) as chroma:
        command = [sys.executable, "-m", "benchmarks.growth", "--url", chroma.url, "--sizes", str(size)]
        ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        memory = peak_mib(chroma.process.pid)
    cells = [
        f"{service:.1f} ({'no such call' if direct is None else f'{direct:.1f}'})"
        for service, direct in zip(ours["times"], own, strict=True)
    ]
    return [*cells, f"{ours['memory']:.0f}", f"{memory:.0f} ({own_memory:.0f})"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="folder of Chroma's files")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 50_000, 200_000, 1_000_000])
    parser.add_argument("--url", help="a Chroma server that is full: prints the service's figures of one size as JSON")
    parser.add_argument("--fill-only", action="store_true", help="write the documents and measure nothing")
    parser.add_argument("--full", action="store_true", help="the collections are full: write nothing")
    options = parser.parse_args()
    if options.url is not None:
        times = measure_service(options.url, options.sizes[0])
        print(json.dumps({"times": times, "memory": peak_mib("self")}))
        return
    if not options.full:
        options.folder.mkdir(parents=True, exist_ok=True)
        with running(start_chroma(options.folder)) as chroma:
            fill(chroma.url, options.sizes)
    if options.fill_only:
        return
    columns = []
    for size in options.sizes:
        columns.append(measure(options.folder, size))
        print(f"{size}: {columns[-1]}", file=sys.stderr, flush=True)
    print(f"| documents | {' | '.join(f'{size:,}' for size in options.sizes)} |")
    print(f"| --- |{' --- |' * len(columns)}")
    for row, cells in zip((*ROWS, *MEMORY), zip(*columns, strict=True), strict=True):
        print(f"| {row} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
