"""Compares filtered queries with Chroma's own, by the share of the documents that match.

    python -m benchmarks.filters --folder DIR                                 # Chroma's files; filled on the first run
    python -m benchmarks.filters --folder DIR --sizes 50000 --vectors FILE    # also real vectors
    python -m benchmarks.filters --folder DIR --sizes --vectors FILE --take 500 2000    # the first of these only

Each size is a collection of random embeddings of 32, and real vectors are others; all are in one server. Chroma's own
query and the query of the service's store take turns, and the order within a pair alternates. Each pair has a new
filter; the next query with it is paired as well.

A filter selects a value of a text field (`part`), or the numbers below a limit (`number`).
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, ParamSpec
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus import load_corpus
from benchmarks.growth import PATH, opened
from ragstore.app import create_store
from ragstore.model.documents import Batch, Write
from ragstore.model.filters.condition import Condition
from ragstore.model.metadata import Metadata
from ragstore.model.queries import Query
from ragstore.model.vectors import Vector
from ragstore.operations.write_documents import write_batch
from ragstore.settings import Settings
from ragstore.store.protocol import Store
from tests.support.servers import running, start_chroma

P = ParamSpec("P")

Vectors = NDArray[np.float32]

DIMENSION: Final = 32
BATCH: Final = 2000
TOP_K: Final = 5
SHARES: Final = (0.001, 0.005, 0.015, 0.05, 0.2, 0.5)
KINDS: Final = ("part", "number")
NUMBERS: Final = 1_000_000
"""Numbers are evenly distributed below this one."""


@dataclass(frozen=True)
class Case:
    """A collection.

    Attributes:
        vectors: its embeddings.
        queries: embeddings of queries.
    """

    name: str
    vectors: Vectors
    queries: Vectors


def cases(sizes: Sequence[int], vectors: Path | None, taken: Sequence[int]) -> Iterator[Case]:
    """The collections.

    Args:
        sizes: numbers of random embeddings.
        vectors: file of real embeddings, if any.
        taken: numbers of real embeddings; all where it is empty.
    """
    for size in sizes:
        generator = np.random.default_rng(size)
        drawn = generator.normal(size=(size + 100, DIMENSION)).astype(np.float32)
        yield Case(f"filters-{size}", drawn[:size], drawn[size:])
    if vectors is not None:
        corpus = load_corpus(vectors)
        for size in taken or [len(corpus.vectors)]:
            yield Case(f"filters-real-{size}", corpus.vectors[:size], corpus.queries)


def metadatas_of(count: int) -> list[Metadata]:
    """Metadata, so that a value of `part` and a limit of `number` select each of the shares."""
    generator = np.random.default_rng(1)
    bounds = np.cumsum(SHARES)
    parts = np.searchsorted(bounds, generator.permutation(count) / count, side="right").tolist()
    numbers = (generator.permutation(count) * (NUMBERS / count)).astype(int).tolist()
    return [{"part": f"part{part}", "number": number} for part, number in zip(parts, numbers, strict=True)]


def where_of(kind: str, share: float, variant: int) -> dict[str, object]:
    """A filter that selects a share, in Chroma's language. Each variant is another filter, of the same cost."""
    if kind == "part":
        return {"part": {"$in": [f"part{SHARES.index(share)}", f"none{variant}"]}}
    return {"number": {"$lt": int(share * NUMBERS) + variant}}


def fill(url: str, case: Case) -> None:
    """Write the documents that a collection lacks."""

    async def write(store: Store) -> None:
        names = [collection.name for collection in await store.list_collections(None, 0)]
        if case.name not in names:
            await store.create_collection(case.name, {}, "cosine")
        stored = await store.count(case.name)
        metadatas = metadatas_of(len(case.vectors))
        for start in range(stored, len(case.vectors), BATCH):
            rows = case.vectors[start : start + BATCH]
            ids = [f"d{row}" for row in range(start, start + len(rows))]
            batch = Batch(ids, ["x" * 100] * len(ids), metadatas[start : start + len(ids)], rows)
            await write_batch(store, case.name, Write("upsert", batch))

    with opened(url) as (loop, store):
        loop.run_until_complete(write(store))


class Chroma:
    """Chroma's own queries of a collection, over one connection.

    Args:
        url: the server's URL.
        name: the collection's name.
    """

    def __init__(self, url: str, name: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)
        self._path = f"{PATH}/{self._request('GET', f'{PATH}/{name}')['id']}/query"

    def query(self, embedding: list[float], where: dict[str, object]) -> list[str]:
        """The ids of the nearest documents, which are read with their texts and metadata."""
        include = ["documents", "metadatas", "distances"]
        body = {"query_embeddings": [embedding], "n_results": TOP_K, "where": where, "include": include}
        ids: list[str] = self._request("POST", self._path, body)["ids"][0]
        return ids

    def _request(self, method: str, path: str, body: object = None) -> dict[str, list[list[str]]]:
        content = None if body is None else json.dumps(body)
        self._connection.request(method, path, content, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        found: dict[str, list[list[str]]] = json.loads(response.read())
        if response.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"{response.status}: {found}")
        return found


@dataclass(frozen=True)
class Row:
    """The times of a share, in seconds.

    Attributes:
        first: pairs of Chroma's own query and the first one of a filter.
        later: pairs of Chroma's own query and the next one of the filter.
    """

    first: list[tuple[float, float]]
    later: list[tuple[float, float]]


class Service:
    """A store of the service, over a Chroma server.

    Args:
        url: the server's URL.
        name: name of the collection.
    """

    def __init__(self, url: str, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._name = name
        self._store = create_store(Settings(chroma_url=url, chroma_timeout_seconds=600, index_sample_every=0))
        self._loop.run_until_complete(self._store.start())

    def query(self, embedding: Vector, condition: Condition) -> list[str]:
        """The ids of the nearest documents, which are read with their texts and metadata."""
        found = self._loop.run_until_complete(self._store.query(self._name, [Query(embedding, TOP_K, condition)]))
        return found.matches[0].ids

    def close(self) -> None:
        """Close it."""
        self._loop.run_until_complete(self._store.close())
        self._loop.close()


def measure(chroma: Chroma, service: Service, queries: Vectors, wheres: Sequence[dict[str, object]]) -> Row:
    """Measure the first two queries of each filter."""
    row = Row([], [])
    for number, where in enumerate(wheres):
        condition = Condition.parse(where)
        for offset, pair in enumerate((row.first, row.later)):
            embedding = queries[(2 * number + offset) % len(queries)]
            numbers = [float(value) for value in embedding]
            if number % 2:
                direct = seconds_of(chroma.query, numbers, where)
                ours = seconds_of(service.query, embedding, condition)
            else:
                ours = seconds_of(service.query, embedding, condition)
                direct = seconds_of(chroma.query, numbers, where)
            pair.append((direct, ours))
    return row


def seconds_of(call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> float:
    """The time that a call takes."""
    began = time.perf_counter()
    call(*args, **kwargs)
    return time.perf_counter() - began


def cells(pairs: list[tuple[float, float]]) -> str:
    """Medians of both sides in milliseconds, and the median ratio of a pair."""
    direct, ours = (statistics.median(times) * 1000 for times in zip(*pairs, strict=True))
    ratio = statistics.median(service / chroma for chroma, service in pairs)
    return f"{direct:.1f} | {ours:.1f} | {ratio:.2f}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="folder of Chroma's files")
    parser.add_argument("--sizes", type=int, nargs="*", default=[50_000, 200_000])
    parser.add_argument("--vectors", type=Path, help="file of real vectors")
    parser.add_argument("--take", type=int, nargs="*", default=[], help="numbers of real vectors; otherwise all")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--shares", type=float, nargs="+", choices=SHARES, default=list(SHARES))
    parser.add_argument("--pairs", type=int, default=15)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with running(start_chroma(options.folder)) as chroma:
        for case in cases(options.sizes, options.vectors, options.take):
            began = time.perf_counter()
            fill(chroma.url, case)
            print(f"{case.name}: filled after {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
            direct, service = Chroma(chroma.url, case.name), Service(chroma.url, case.name)
            for kind in options.kinds:
                measure(direct, service, case.queries, [where_of(kind, 0.5, 1000)])  # fills the caches of both
                print(f"\n{case.name}, filter of `{kind}`, milliseconds\n")
                print("| match | documents | Chroma | first query | ratio | Chroma | next query | ratio |")
                print("| --- | --- | --- | --- | --- | --- | --- | --- |")
                for share in options.shares:
                    wheres = [where_of(kind, share, variant) for variant in range(options.pairs)]
                    row = measure(direct, service, case.queries, wheres)
                    matches = round(share * len(case.vectors))
                    print(f"| {share:.1%} | {matches:,} | {cells(row.first)} | {cells(row.later)} |", flush=True)
            service.close()


if __name__ == "__main__":
    main()
