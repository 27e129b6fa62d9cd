"""Find the sizes at which Chroma fails, over embedded Chroma and over a Chroma server, and print them as a table.

    .venv/bin/python -m benchmarks.limits [--store embedded|remote] [NAME ...]

Each size is doubled until Chroma fails and then bisected, each attempt in a separate collection. After a failure the
collection gets one more write: if that fails too, the size has poisoned the collection. The script calls the backend,
below the service's own limits. Its memory is limited, so that a size that needs too much fails instead of exhausting
the machine. It takes about five minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import numpy as np

from ragstore.chroma import merging, query_groups
from ragstore.chroma.backend import Backend
from ragstore.chroma.embedded.backend import EmbeddedBackend
from ragstore.chroma.http.backend import HttpBackend
from ragstore.chroma.operations import (
    AddRecords,
    CreateCollection,
    DeleteCollection,
    DeleteRecords,
    GetCollection,
    GetRecords,
    QueryRecords,
    UpsertRecords,
)
from ragstore.chroma.records import Column, RecordBatch, UpsertMetadata
from ragstore.errors import ChromaError, ChromaTimeout, ChromaUnavailable
from ragstore.filters import grammar
from ragstore.filters.values import MetadataValue
from ragstore.kit.errors import ServiceError
from ragstore.model import metadata, vectors
from ragstore.model.collections import Collection
from ragstore.model.filters import combinations, where_document
from ragstore.settings import Settings
from tests.support.servers import Served, running, start_chroma

MEMORY_BYTES: Final = 8 * 2**30
TIMEOUT_SECONDS: Final = 60.0
SLOW_SECONDS: Final = 20.0
"""An attempt that takes longer ends the search: larger sizes would take too long."""

MIB: Final = 2**20
DOCUMENTS: Final = 100
"""Number of documents in writes whose total of metadata values is measured."""

WIDTH: Final = 1536
"""Dimension of the embeddings of large writes."""


@dataclass(frozen=True)
class Bench:
    """A new collection of a backend.

    Attributes:
        backend: Chroma.
        collection: the collection, which is empty.
    """

    backend: Backend
    collection: Collection

    async def write(
        self, *metadatas: UpsertMetadata, text: str = "text", first_id: str = "0", dimension: int = 2
    ) -> None:
        """Write documents in one call."""
        ids = [first_id, *map(str, range(1, len(metadatas)))]
        embeddings = np.ones((len(ids), dimension), dtype=np.float32)
        records = RecordBatch(ids, embeddings, [text] * len(ids), list(metadatas))
        await self.backend.call(UpsertRecords(self.collection.id, records))

    async def add(self, meta: UpsertMetadata) -> None:
        """Add a document, with a write token."""
        records = RecordBatch(["0"], np.ones((1, 2), dtype=np.float32), ["text"], [meta])
        await self.backend.call(AddRecords(self.collection.id, records, ["mark"]))

    async def read(self, where: dict[str, object] | None = None, **filters: object) -> None:
        """Write one document, and read with a filter."""
        await self.write({"k": 1})
        columns: tuple[Column, ...] = ("documents", "metadatas")
        await self.backend.call(GetRecords(self.collection.id, where=where, columns=columns, **filters))  # type: ignore[arg-type]  # by name


Attempt = Callable[[Bench, int], Awaitable[object]]


@dataclass(frozen=True)
class Size:
    """A size to search the limit of.

    Attributes:
        name: what the size counts.
        attempt: makes a call of a given size.
        max_size: the maximum size to try.
        ours: the service's limit.
        start: the first size to try.
    """

    name: str
    attempt: Attempt
    max_size: int
    ours: str
    start: int = 16


def _keys(count: int, prefix: str = "k") -> dict[str, MetadataValue | None]:
    return {f"{prefix}{number}": number for number in range(count)}


def _small(count: int) -> list[UpsertMetadata]:
    return [{"k": 1} for _ in range(count)]


def _nested(depth: int) -> dict[str, object]:
    filtered: dict[str, object] = {"k": 1}
    for _ in range(depth):
        filtered = {"$and": [filtered, {"k": 1}]}
    return filtered


def _wide(count: int) -> dict[str, object]:
    return {"$and": [{f"k{number}": number} for number in range(count)]}


async def _replace(bench: Bench, count: int) -> None:
    await bench.write(_keys(5000))
    await bench.write({**dict.fromkeys(_keys(count)), "k": 1})


async def _query(bench: Bench, count: int) -> None:
    ids = _ids(1000)
    embeddings = np.random.default_rng(7).standard_normal((len(ids), 2)).astype(np.float32)
    records = RecordBatch(ids, embeddings, ["text"] * len(ids), _small(len(ids)))
    await bench.backend.call(UpsertRecords(bench.collection.id, records))
    vectors = embeddings[: max(1, count // 1000)]
    columns: tuple[Column, ...] = ("documents", "metadatas")
    await bench.backend.call(QueryRecords(bench.collection.id, vectors, min(count, 1000), columns=columns))


async def _create(bench: Bench, name: str, meta: dict[str, str | int | float | bool]) -> None:
    await bench.backend.call(CreateCollection(name, meta, "l2"))
    await bench.backend.call(GetCollection(name))
    await bench.backend.call(DeleteCollection(name))


def _ids(count: int) -> list[str]:
    return [f"document-{number}" for number in range(count)]


_BODY: Final = f"{Settings().max_body_bytes // MIB} MiB of body"
_OPERAND: Final = f"{where_document.MAX_TEXT:,}"

SIZES: Final = [
    Size("metadata keys of a document", lambda b, n: b.write(_keys(n)), 20_000, f"{metadata.MAX_VALUES:,}"),
    Size("the same, with a write token", lambda b, n: b.add({**_keys(n)}), 20_000, f"{metadata.MAX_VALUES:,}"),
    Size("list members of a document", lambda b, n: b.write({"l": [*range(n)]}), 20_000, f"{metadata.MAX_VALUES:,}"),
    Size("keys that a replacement removes", _replace, 80_000, f"{merging.MAX_REMOVED_KEYS:,}"),
    Size(
        f"metadata values of {DOCUMENTS} documents",
        lambda b, n: b.write(*(_keys(n // DOCUMENTS) for _ in range(DOCUMENTS))),
        400_000,
        f"{metadata.MAX_VALUES:,} each",
        DOCUMENTS,
    ),
    Size("characters of a text", lambda b, n: b.write({"k": 1}, text="word " * (n // 5)), 64 * MIB, _BODY, MIB),
    Size("characters of a metadata value", lambda b, n: b.write({"k": "x" * n}), 64 * MIB, _BODY, MIB),
    Size("characters of a metadata key", lambda b, n: b.write({"k" * n: 1}), 64 * MIB, _BODY, MIB),
    Size("characters of an id", lambda b, n: b.write({"k": 1}, first_id="i" * n), 64 * MIB, _BODY, MIB),
    Size("dimension", lambda b, n: b.write({"k": 1}, dimension=n), 16 * MIB, f"{vectors.MAX_DIMENSION:,}", 1024),
    Size(
        f"documents of dimension {WIDTH} in a write",
        lambda b, n: b.write(*_small(n), dimension=WIDTH),
        10_000,
        f"{Settings().max_batch_size:,}, {_BODY}",
        500,
    ),
    Size(
        "ids of a get", lambda b, n: b.backend.call(GetRecords(b.collection.id, ids=_ids(n))), 100_000, "10,000", 1000
    ),
    Size(
        "ids of a deletion",
        lambda b, n: b.backend.call(DeleteRecords(b.collection.id, _ids(n))),
        100_000,
        "5,461",
        1000,
    ),
    Size("strings in `$in`", lambda b, n: b.read({"k": {"$in": _ids(n)}}), 100_000, f"{grammar.MAX_VALUES:,}"),
    Size(
        "whole numbers in `$in`",
        lambda b, n: b.read({"k": {"$in": list(range(n))}}),
        100_000,
        f"{grammar.MAX_VALUES:,}",
    ),
    Size(
        "fractions in `$in`",
        lambda b, n: b.read({"k": {"$in": [number + 0.5 for number in range(n)]}}),
        100_000,
        f"{grammar.MAX_VALUES // 2:,}",
    ),
    Size("levels of `$and`", lambda b, n: b.read(_nested(n)), 1000, f"{grammar.MAX_DEPTH}", 4),
    Size("comparisons side by side", lambda b, n: b.read(_wide(n)), 10_000, f"{combinations.MAX_SIBLINGS}, in groups"),
    Size(
        "characters in `$contains`",
        lambda b, n: b.read(where_document={"$contains": "x" * n}),
        16 * MIB,
        _OPERAND,
        1024,
    ),
    Size("characters in `$regex`", lambda b, n: b.read(where_document={"$regex": "x" * n}), 16 * MIB, _OPERAND, 1024),
    Size("results of all queries of a call", _query, 64_000, f"{query_groups.MAX_RESULTS:,}", 1000),
    Size("characters of a collection's name", lambda b, n: _create(b, "n" * n, {}), 4096, "512"),
    Size(
        "metadata keys of a collection",
        lambda b, n: _create(b, uuid4().hex, {f"k{number}": number for number in range(n)}),
        20_000,
        f"{metadata.MAX_COLLECTION_KEYS:,}",
    ),
    Size(
        "characters of a collection's metadata value",
        lambda b, n: _create(b, uuid4().hex, {"k": "x" * n}),
        64 * MIB,
        _BODY,
        MIB,
    ),
]


class RestartableChroma:
    """Chroma of one kind, which is restarted when a size has crashed it."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self._folder = folder
        self._served: Served | None = None
        self.backend: Backend = self._made()

    def _made(self) -> Backend:
        if self.kind == "embedded":
            return EmbeddedBackend(str(self._folder / "data"), "tenant", "database", TIMEOUT_SECONDS)
        if self._served is not None and self._served.process.poll() is None:
            self._served.process.kill()
            self._served.process.wait()
        self._served = start_chroma(self._folder)
        return HttpBackend(self._served.url, "tenant", "database", headers={}, timeout=TIMEOUT_SECONDS, connections=4)

    async def restart(self) -> None:
        """Restart Chroma."""
        with suppress(ServiceError):
            await self.backend.close()
        self.backend = self._made()
        await self.backend.start()

    async def end(self) -> None:
        """Stop Chroma."""
        await self.backend.close()
        if self._served is not None:
            with running(self._served):
                pass

    @asynccontextmanager
    async def bench(self) -> AsyncIterator[Bench]:
        """A new collection, deleted afterwards."""
        name = f"t-{uuid4().hex}"
        yield Bench(self.backend, await self.backend.call(CreateCollection(name, {}, "l2")))
        with suppress(ServiceError):
            await self.backend.call(DeleteCollection(name))


async def attempted(chroma: RestartableChroma, size: Size, number: int) -> str:
    """Make one attempt.

    Returns:
        The failure and the state of the collection; empty on success.
    """
    async with chroma.bench() as bench:
        try:
            await size.attempt(bench, number)
        except (ChromaUnavailable, ChromaTimeout) as error:
            await chroma.restart()
            how = f"{error.status}, Chroma crashed or hung"
        except ChromaError as error:
            how = f"{error.status}"
        except ServiceError as error:
            how = f"{error.status}"
        else:
            return ""
        return f"{how}, {await _state(Bench(chroma.backend, bench.collection))}"


async def _state(bench: Bench) -> str:
    """Whether a collection still accepts a write, and can be read."""
    try:
        dimension = (await bench.backend.call(GetCollection(bench.collection.name))).dimension or 2
        after = RecordBatch(["after"], np.ones((1, dimension), dtype=np.float32), ["text"], [{"k": 1}])
        await bench.backend.call(UpsertRecords(bench.collection.id, after))
        await bench.backend.call(GetRecords(bench.collection.id, ids=["after"], columns=("metadatas",)))
    except ServiceError as error:
        return "fine" if error.status == 400 else "**poisoned**"
    return "fine"


async def searched(chroma: RestartableChroma, size: Size) -> str:
    """The largest size that worked, the smallest that failed, and the failure."""
    works, fails, how = 0, 0, ""
    number = size.start
    while not fails:
        began = time.monotonic()
        how = await attempted(chroma, size, number)
        if how:
            fails = number
        elif number == size.max_size:
            return f"{number:,} works"
        elif time.monotonic() - began > SLOW_SECONDS:
            return f"{number:,} works, in {time.monotonic() - began:.0f} s"
        else:
            works = number
            number = min(2 * number, size.max_size)
    while fails - works > max(1, works // 5000):
        number = (works + fails) // 2
        if failure := await attempted(chroma, size, number):
            fails, how = number, failure
        else:
            works = number
    return f"{works:,} works, {fails:,} is {how}"


async def measure(kind: str, names: list[str]) -> dict[str, str]:
    """Find the limits of all sizes over one kind of Chroma."""
    with tempfile.TemporaryDirectory() as folder:
        chroma = RestartableChroma(kind, Path(folder))
        await chroma.backend.start()
        found: dict[str, str] = {}
        try:
            for size in SIZES:
                if not names or any(name in size.name for name in names):
                    found[size.name] = await searched(chroma, size)
                    print(f"{kind}: {size.name}: {found[size.name]}", flush=True)
        finally:
            await chroma.end()
        return found


def main() -> None:
    """Measure the limits, and print them as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=("embedded", "remote"), action="append")
    parser.add_argument("names", nargs="*", help="measure only sizes whose name contains one of these; default: all")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    kinds = arguments.store or ["embedded", "remote"]
    found = {kind: asyncio.run(measure(kind, arguments.names)) for kind in kinds}
    print(f"\n| size | {' | '.join(kinds)} | ours |\n| --- |{' --- |' * (len(kinds) + 1)}")
    for size in SIZES:
        if size.name in found[kinds[0]]:
            print(f"| {size.name} | {' | '.join(found[kind][size.name] for kind in kinds)} | {size.ours} |")


if __name__ == "__main__":
    main()
