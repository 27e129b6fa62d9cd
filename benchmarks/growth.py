"""Measures how the cost of calls grows with the number of documents: `python -m benchmarks.growth --url http://...`.

The service's store runs in this process, over a Chroma server. Embeddings have 32 dimensions, texts 100 characters.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Final

import numpy as np

from ragstore.app import create_store
from ragstore.model.documents import EVERYTHING, Batch, Selection, Write
from ragstore.model.filters.condition import Condition
from ragstore.model.metadata import Metadata
from ragstore.model.queries import Query
from ragstore.operations.list_documents import Cursor, Page, list_page
from ragstore.settings import Settings
from ragstore.store.protocol import Store, write_batch

DIMENSION: Final = 32
BATCH: Final = 2000
REPEATS: Final = 7
HALF: Final = Condition.parse({"half": True})
LIMIT: Final = 100


def documents(start: int, count: int) -> Batch:
    """Documents, half of which match a filter, and ten of which have the same `doc`."""
    generator = np.random.default_rng(start)
    rows = generator.normal(size=(count, DIMENSION)).astype(np.float32)
    ids = [f"d{row}" for row in range(start, start + count)]
    metadatas: list[Metadata] = [
        {"half": row % 2 == 0, "doc": f"doc{row // 10}"} for row in range(start, start + count)
    ]
    return Batch(ids, ["x" * 100] * count, metadatas, rows)


async def milliseconds(call: Callable[[int], Awaitable[object]], repeats: int = REPEATS) -> float:
    """Median time of a call."""
    times = []
    for index in range(repeats):
        began = time.perf_counter()
        await call(index)
        times.append((time.perf_counter() - began) * 1000)
    return median(times)


async def measure(store: Store, name: str, size: int) -> list[float]:
    """The figures of one size, in the order of the table's rows."""
    everything, half = EVERYTHING, Selection(condition=HALF)
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(1000, DIMENSION)).astype(np.float32)
    first = Page(LIMIT, 0, False, True)
    deep = Page(LIMIT, size - 2 * LIMIT, False, True)
    last = Cursor(size - 2 * LIMIT, f"d{size - 2 * LIMIT - 1}", size)
    filtered_last = Cursor(size // 2 - 2 * LIMIT, f"d{size - 4 * LIMIT - 2}", size // 2)

    def after(cursor: Cursor) -> Page:
        return Page(LIMIT, 0, False, True, after=cursor)

    return [
        await milliseconds(lambda _: list_page(store, name, everything, first)),
        await milliseconds(lambda _: list_page(store, name, everything, deep)),
        await milliseconds(lambda _: list_page(store, name, everything, after(last))),
        await milliseconds(lambda _: list_page(store, name, half, first)),
        await milliseconds(lambda _: list_page(store, name, half, Page(LIMIT, LIMIT, False, True))),
        await milliseconds(lambda _: list_page(store, name, half, Page(LIMIT, size // 2 - 2 * LIMIT, False, True))),
        await milliseconds(lambda _: list_page(store, name, half, after(filtered_last))),
        await milliseconds(lambda index: store.query(name, [Query(vectors[index], 5)])),
        await milliseconds(lambda index: store.query(name, [Query(vectors[index], 5, HALF)])),
        await milliseconds(
            lambda index: store.query(name, [Query(vectors[index], 5, Condition.parse({"doc": f"doc{index}"}))])
        ),
        await milliseconds(lambda index: store.delete(name, Selection(ids=(f"d{index}",)))),
        await milliseconds(
            lambda index: store.delete(name, Selection(condition=Condition.parse({"doc": f"doc{100 + index}"})))
        ),
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    ]


ROWS: Final = (
    *("first page, with total", "last page by offset", "last page by cursor"),
    *("first page of a filter, half match", "its second page", "its last page by offset", "its last page by cursor"),
    *("query", "query, half match", "query, ten match"),
    *("deletion of one id", "deletion by a filter, ten match", "memory of the service, MiB"),
)


async def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="address of a Chroma server")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 50_000, 200_000], help="numbers of documents")
    options = parser.parse_args()
    store = create_store(Settings(chroma_url=options.url, index_sample_every=0))
    await store.start()
    name = f"growth-{time.time_ns()}"
    await store.create_collection(name, {}, "cosine")
    columns, stored = [], 0
    for size in options.sizes:
        began = time.perf_counter()
        for start in range(stored, size, BATCH):
            await write_batch(store, name, Write("upsert", documents(start, min(BATCH, size - start))))
        print(f"{size}: written in {time.perf_counter() - began:.0f} s", flush=True)
        stored = size
        columns.append(await measure(store, name, size))
        for row, figures in zip(ROWS, zip(*columns, strict=True), strict=True):
            print(f"| {row} | {' | '.join(f'{figure:.1f}' for figure in figures)} |", flush=True)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
