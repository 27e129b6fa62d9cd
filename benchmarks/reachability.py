"""Counts the stored documents that no query finds, in the cases that Chroma's graph index handles badly.

    python -m benchmarks.reachability                       # embedded Chroma in a temporary folder
    python -m benchmarks.reachability --url http://...      # a Chroma server
    python -m benchmarks.reachability --vectors FILE        # also real vectors, after three replacements
    python -m benchmarks.reachability --vectors FILE --only real --sample 2000

Each document is looked for by its own embedding, with a filter that selects only it. Recall compares ten results with
the ten nearest documents by numpy.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus import load_corpus
from ragstore.app import create_store
from ragstore.chroma.backend import Backend
from ragstore.chroma.chroma_store import ChromaStore
from ragstore.chroma.operations import QueryRecords
from ragstore.model.collections import Distance
from ragstore.model.documents import Batch, Write
from ragstore.model.filters.condition import Condition
from ragstore.model.metadata import Metadata
from ragstore.model.queries import Query
from ragstore.operations.write_documents import write_batch
from ragstore.settings import Settings
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store

Vectors = NDArray[np.float32]

DIMENSION: Final = 384
TOP_K: Final = 10
MAX_SAMPLE: Final = 500
"""Maximum number of documents that are looked for, by default."""

SHARE: Final = 0.05
"""Share of the documents that the filter of the filtered recall selects."""


@dataclass(frozen=True)
class Case:
    """Embeddings to store.

    Attributes:
        title: what they are.
        distance: the collection's distance.
        rounds: the embeddings of each round; later rounds replace the documents of the first.
    """

    title: str
    distance: Distance
    rounds: list[Vectors]


def cases(vectors: Path | None) -> Iterator[Case]:
    """The cases, and the real vectors of a file."""
    yield Case("l2, lengths vary by 30 %, 400", "l2", [_gaussian(400, 0.3, 1)])
    yield Case("l2, lengths vary by 30 %, 3,000", "l2", [_gaussian(3000, 0.3, 2)])
    yield Case("ip, lengths vary by a factor of 4.5, 500", "ip", [_gaussian(500, 1.5, 3)])
    replaced = [_gaussian(400, 1.0, seed) for seed in range(3, 7)]
    yield Case("ip, lengths vary by a factor of 2.7, 400, after three replacements", "ip", replaced)
    yield Case("cosine, the first 300 of 400 equal", "cosine", [_with_equal(400, 300, 1)])
    yield Case("cosine, the first 350 of 400 equal", "cosine", [_with_equal(400, 350, 1)])
    yield Case("l2, 900, after three replacements", "l2", [_gaussian(900, 0.3, seed) for seed in range(6, 10)])
    if vectors is not None:
        real = load_corpus(vectors).vectors
        order = np.random.default_rng(10)
        rounds = [real, *(real[order.permutation(len(real))] for _ in range(3))]
        yield Case(f"cosine, {len(real):,} real, after three replacements", "cosine", rounds)


def _gaussian(count: int, spread: float, seed: int) -> Vectors:
    """Random directions, with lengths that are distributed lognormally."""
    generator = np.random.default_rng(seed)
    directions = generator.normal(size=(count, DIMENSION))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return (directions * generator.lognormal(0, spread, (count, 1))).astype(np.float32)


def _with_equal(count: int, equal: int, seed: int) -> Vectors:
    """Random vectors of which the first ones are equal, like the vectors of repeated boilerplate."""
    vectors = _gaussian(count, 0.0, seed)
    vectors[1:equal] = vectors[0]
    return vectors


async def measure(store: Store, case: Case, max_sample: int) -> str:
    """Store the documents of a case, and look for some of them.

    Returns:
        A row of the table.
    """
    name = f"reachability-{time.time_ns()}"
    await store.create_collection(name, {}, case.distance)
    for vectors in case.rounds:
        for start in range(0, len(vectors), 1000):
            chunk = vectors[start : start + 1000]
            ids = [str(row) for row in range(start, start + len(chunk))]
            draws = np.random.default_rng(start).random(len(chunk))
            metadatas: list[Metadata] = [
                {"one": key, "few": bool(draw < SHARE)} for key, draw in zip(ids, draws.tolist(), strict=True)
            ]
            await write_batch(store, name, Write("upsert", Batch(ids, ids, metadatas, chunk)))
    stored = case.rounds[-1]
    sample = np.random.default_rng(0).permutation(len(stored))[:max_sample]
    collection = await store.get_collection(name)
    lost_by_chroma = 0
    began = time.perf_counter()
    for row in sample:
        own = QueryRecords(collection.id, stored[row : row + 1], 1, where={"one": str(row)})
        lost_by_chroma += (await _backend_of(store).call(own))[0].ids != [str(row)]
    by_chroma = (time.perf_counter() - began) / len(sample)
    lost = 0
    began = time.perf_counter()
    for row in sample:
        found = await store.query(name, [Query(stored[row], 1, Condition.parse({"one": str(row)}))])
        lost += found.matches[0].ids != [str(row)]
    by_filter = (time.perf_counter() - began) / len(sample)
    matching = np.array([row for row in range(len(stored)) if _is_few(row)])
    plain = await _recall(store, name, case, np.arange(len(stored)), None)
    filtered = await _recall(store, name, case, matching, Condition.parse({"few": True}))
    widest = min(1000, len(stored))
    wide = len((await store.query(name, [Query(stored[0], widest)])).matches[0].ids)
    await store.delete_collection(name)
    return (
        f"| {case.title} | {lost_by_chroma} of {len(sample)} | {lost} | {by_chroma * 1000:.1f} ms "
        f"| {by_filter * 1000:.1f} ms | {plain:.3f} | {filtered:.3f} | {wide} of {widest} |"
    )


def _backend_of(store: Store) -> Backend:
    """The backend below all layers."""
    while isinstance(store, StoreLayer):
        store = store.inner
    return cast("ChromaStore", store).backend


def _is_few(row: int) -> bool:
    start = row // 1000 * 1000
    return bool(np.random.default_rng(start).random(row - start + 1)[-1] < SHARE)


async def _recall(store: Store, name: str, case: Case, rows: NDArray[np.intp], condition: Condition | None) -> float:
    """Share of the ten nearest documents that queries find, in 100 queries."""
    stored = case.rounds[-1]
    generator = np.random.default_rng(20)
    share = 0.0
    for row in generator.integers(0, len(stored), 100):
        noise = generator.normal(size=DIMENSION) / np.sqrt(DIMENSION) * np.linalg.norm(stored[row]) * 0.5
        embedding = (stored[row] + noise).astype(np.float32)
        distances = _distances(stored[rows], embedding, case.distance)
        query = Query(embedding, TOP_K) if condition is None else Query(embedding, TOP_K, condition)
        found = (await store.query(name, [query])).matches[0].ids
        expected = min(TOP_K, len(rows))
        bound = np.sort(distances)[expected - 1] * (1 + 1e-5) + 1e-6
        of = {str(key): distance for key, distance in zip(rows.tolist(), distances.tolist(), strict=True)}
        share += sum(of[key] <= bound for key in found) / expected
    return share / 100


def _distances(stored: Vectors, embedding: Vectors, distance: Distance) -> NDArray[np.float64]:
    rows, query = stored.astype(np.float64), embedding.astype(np.float64)
    if distance == "l2":
        return np.asarray(((rows - query) ** 2).sum(axis=1))
    products = rows @ query
    if distance == "cosine":
        products /= np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
    return np.asarray(1 - products)


async def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="", help="address of a Chroma server; embedded Chroma by default")
    parser.add_argument("--vectors", type=Path, help="file of numpy arrays `vectors` and `queries`")
    parser.add_argument("--only", default="", help="cases whose title has this text")
    parser.add_argument("--sample", type=int, default=MAX_SAMPLE, help="maximum number of documents to look for")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = create_store(Settings(data_path=folder, chroma_url=options.url, chroma_timeout_seconds=600))
        await store.start()
        print(
            "| embeddings | not found by Chroma | by the service | time of Chroma | of the service "
            "| recall@10 | with a 5 % filter | results of top_k 1,000 |"
        )
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for case in cases(options.vectors):
            if options.only in case.title:
                print(await measure(store, case, options.sample), flush=True)
        await store.close()


if __name__ == "__main__":
    asyncio.run(main())
