"""Counts the documents that deletions of many equal ones hide, by Chroma's index and with the embedding memory.

    python -m benchmarks.equal_embeddings                   # embedded Chroma in a temporary folder
    python -m benchmarks.equal_embeddings --url http://...  # a Chroma server

In each round, up to 200 copies of the embedding of one document are written and deleted, and the documents are written
again. Then each document is looked for by its own embedding. The times are of queries for ten results, in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from typing import Final

import numpy as np

from ragstore.app import create_store
from ragstore.model.collections import HnswParameters
from ragstore.model.documents import Batch, Selection, Write
from ragstore.model.queries import Query
from ragstore.model.vectors import Matrix
from ragstore.settings import Settings
from ragstore.store.embedding_memory import EmbeddingMemory
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store, write_batch

COUNTS: Final = (120, 600)
DIMENSION: Final = 384
MAX_COPIES: Final = 200
ROUNDS: Final = 12
QUERIES: Final = 60
INDEX: Final = HnswParameters(ef_construction=300, max_neighbors=64, ef_search=400)
"""The parameters of the gateway's collections."""


def documents_of(rows: Matrix, prefix: str) -> Write:
    """An upsert of documents with these embeddings."""
    ids = [f"{prefix}{row}" for row in range(len(rows))]
    return Write("upsert", Batch(ids, ["text " * 120] * len(ids), [{"of": key} for key in ids], rows))


async def not_found(store: Store, name: str, rows: Matrix) -> int:
    """Number of documents that are not the nearest to their own embedding."""
    found = await store.query(name, [Query(row, 1, may_be_short=True) for row in rows])
    return sum(hits.ids != [f"d{row}"] for row, hits in enumerate(found.matches))


async def milliseconds(store: Store, name: str, seed: int) -> float:
    """The median time of a query for ten results."""
    times = []
    for vector in np.random.default_rng(seed).normal(size=(QUERIES, DIMENSION)).astype(np.float32):
        began = time.perf_counter()
        await store.query(name, [Query(vector, 10)])
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


async def measure(index: Store, memory: Store, count: int) -> str:
    """Run the rounds with a number of documents.

    Args:
        index: the store without the memory.
        memory: the same store with it.

    Returns:
        A row of the table.
    """
    name = f"equal-{time.time_ns()}"
    await index.create_collection(name, {}, "cosine", INDEX)
    draws = np.random.default_rng(count)
    rows = draws.normal(size=(count, DIMENSION)).astype(np.float32)
    await write_batch(memory, name, documents_of(rows, "d"))
    lost = missing = 0
    first: list[float] = []
    for number in range(ROUNDS):
        copies = documents_of(np.repeat(rows[number : number + 1], draws.integers(1, MAX_COPIES), axis=0), "copy-")
        await write_batch(memory, name, copies)
        await write_batch(memory, name, documents_of(rows, "d"))
        await memory.delete(name, Selection(ids=tuple(copies.batch.ids)))
        lost += await not_found(index, name, rows)
        began = time.perf_counter()
        await memory.query(name, [Query(rows[0], 10)])
        first.append(time.perf_counter() - began)
        missing += await not_found(memory, name, rows)
    fresh = f"equal-{time.time_ns()}"
    await index.create_collection(fresh, {}, "cosine", INDEX)
    await write_batch(memory, fresh, documents_of(rows, "d"))
    times = [(await milliseconds(index, fresh, seed), await milliseconds(memory, fresh, seed)) for seed in range(5)]
    without, with_memory = (statistics.median(each) for each in zip(*times, strict=True))
    await index.delete_collection(name)
    await index.delete_collection(fresh)
    return (
        f"| {count} | {lost} of {count * ROUNDS} | {missing} | {without:.1f} ms | {with_memory:.1f} ms "
        f"| {statistics.median(first) * 1000:.1f} ms |"
    )


def _below_memory(store: Store) -> tuple[Store, Store]:
    """The store below the memory, and the memory."""
    while isinstance(store, StoreLayer):
        if isinstance(store, EmbeddingMemory):
            return store.inner, store
        store = store.inner
    raise TypeError("The stack has no embedding memory")


async def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="", help="address of a Chroma server; embedded Chroma without it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = create_store(Settings(data_path=folder, chroma_url=options.url, chroma_timeout_seconds=600))
        await store.start()
        print("| documents | not found by the index | with the memory | query | with the memory | after all changed |")
        print("| --- | --- | --- | --- | --- | --- |")
        for count in COUNTS:
            print(await measure(*_below_memory(store), count), flush=True)
        await store.close()


if __name__ == "__main__":
    asyncio.run(main())
