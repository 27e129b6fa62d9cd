"""Reads are consistent: a document is returned as one write left it, although Chroma's server reads in two steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, TypeVar, cast
from uuid import uuid4

import pytest

from ragstore.chroma.backend import Backend
from ragstore.chroma.layers.consistent_reads import MAX_OPTIMISTIC_READS, ConsistentReadLayer
from ragstore.chroma.layers.layered_backend import LayeredBackend
from ragstore.chroma.operations import (
    AddRecords,
    CreateCollection,
    DeleteCollection,
    DeleteRecords,
    GetRecords,
    Operation,
    QueryRecords,
    UpsertRecords,
)
from ragstore.chroma.records import RecordBatch, Records
from ragstore.model.documents import EVERYTHING
from ragstore.store.protocol import Store
from tests.support.factories import batch, make_query, matrix, upsert_documents
from tests.support.spies import turn
from tests.support.stores import STORES, StoreLocation, http_backend

pytestmark = pytest.mark.process

T = TypeVar("T")

Between: TypeAlias = Callable[[], Awaitable[object]]
"""Runs between the two steps of a read."""


async def _nothing() -> None:
    """Nothing runs between the steps of most reads."""


class TornReadBackend:
    """A server that executes each read in two steps twice, and returns a part of each.

    Args:
        inner: the server.

    Attributes:
        between: what happens between the steps of the next reads.
        reads: number of reads in two steps.
    """

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self.between: list[Between] = []
        self.reads = 0

    @property
    def has_conditional_add(self) -> bool:
        return self._inner.has_conditional_add

    async def start(self) -> None:
        await self._inner.start()

    async def close(self) -> None:
        await self._inner.close()

    async def call(self, operation: Operation[T]) -> T:
        first = await self._inner.call(operation)
        if not operation.is_two_step_read:
            return first
        self.reads += 1
        await (self.between.pop(0) if self.between else _nothing)()
        second = await self._inner.call(operation)
        if isinstance(first, Records):
            assert isinstance(second, Records)
            return replace(first, embeddings=second.embeddings)
        assert isinstance(first, list)
        assert isinstance(second, list)
        mixed = [
            replace(one, texts=other.texts, metadatas=other.metadatas) for one, other in zip(first, second, strict=True)
        ]
        return cast("T", mixed)


@pytest.fixture
async def torn(location: StoreLocation) -> AsyncIterator[TornReadBackend]:
    """Such a server."""
    backend = TornReadBackend(http_backend(location.chroma_url, "torn_reads"))
    await backend.start()
    yield backend
    await backend.close()


def _records(*texts: str, ids: tuple[str, ...] = ("a",)) -> RecordBatch:
    """Records whose embeddings begin with the number that their text is."""
    return RecordBatch(
        list(ids), matrix(*([float(text), 0.0] for text in texts)), list(texts), [{"n": int(text)} for text in texts]
    )


class Consistent:
    """A collection on such a server, read consistently, with the document `a`: text 1, embedding beginning with 1."""

    def __init__(self, backend: Backend, collection_id: str) -> None:
        self.layer = ConsistentReadLayer()
        self.backend = LayeredBackend(backend, [self.layer])
        self.id = collection_id

    async def write(self, text: str, document_id: str = "a") -> None:
        """Write a document."""
        await self.backend.call(UpsertRecords(self.id, _records(text, ids=(document_id,))))

    async def get(self) -> tuple[str, float]:
        """The text of `a`, and the number that its embedding begins with."""
        found = await self.backend.call(GetRecords(self.id, ["a"], columns=("documents", "metadatas", "embeddings")))
        assert found.texts is not None
        assert found.embeddings is not None
        return found.texts[0], float(found.embeddings[0][0])

    async def query(self) -> tuple[str, float]:
        """The text of the nearest document, and the number that its embedding begins with, by its distance."""
        (found,) = await self.backend.call(
            QueryRecords(self.id, matrix([0.0, 0.0]), 1, columns=("documents", "metadatas"))
        )
        assert found.texts is not None
        return found.texts[0], found.distances[0] ** 0.5


@pytest.fixture
async def consistent(torn: TornReadBackend) -> AsyncIterator[Consistent]:
    name = f"t-{uuid4().hex}"
    made = Consistent(torn, (await torn.call(CreateCollection(name, {}, "l2"))).id)
    await made.write("1")
    yield made
    await torn.call(DeleteCollection(name))


READS = pytest.mark.parametrize("read", [Consistent.get, Consistent.query], ids=["get", "query"])
Read: TypeAlias = Callable[[Consistent], Awaitable[tuple[str, float]]]


@READS
async def test_a_read_is_repeated_when_its_document_was_upserted_between_the_steps(
    read: Read, consistent: Consistent, torn: TornReadBackend
) -> None:
    torn.between = [lambda: consistent.write("2")]
    assert await read(consistent) == ("2", 2.0)
    assert torn.reads == 2


@READS
async def test_a_read_is_repeated_when_its_document_was_replaced_between_the_steps(
    read: Read, consistent: Consistent, torn: TornReadBackend
) -> None:
    async def replace() -> None:
        await consistent.backend.call(DeleteRecords(consistent.id, ["a"]))
        await consistent.backend.call(AddRecords(consistent.id, _records("2"), ["token"]))

    torn.between = [replace]
    assert await read(consistent) == ("2", 2.0)
    assert torn.reads == 2


@READS
async def test_a_read_is_repeated_when_a_write_that_began_before_it_overlaps_it(
    read: Read, consistent: Consistent, torn: TornReadBackend
) -> None:
    writes: list[asyncio.Task[None]] = []

    async def end_of_write() -> None:
        await asyncio.gather(*writes)

    torn.between = [end_of_write]
    writes.append(asyncio.create_task(consistent.write("2")))
    await turn()
    assert await read(consistent) == ("2", 2.0)


@READS
async def test_a_write_of_another_document_costs_no_second_read(
    read: Read, consistent: Consistent, torn: TornReadBackend
) -> None:
    torn.between = [lambda: consistent.write("7", document_id="b")]
    assert await read(consistent) == ("1", 1.0)
    assert torn.reads == 1


@READS
async def test_a_write_to_another_collection_costs_no_second_read(
    read: Read, consistent: Consistent, torn: TornReadBackend
) -> None:
    other = (await torn.call(CreateCollection(f"t-{uuid4().hex}", {}, "l2"))).id
    torn.between = [lambda: consistent.backend.call(UpsertRecords(other, _records("2")))]
    assert await read(consistent) == ("1", 1.0)
    assert torn.reads == 1


@READS
async def test_a_write_that_ended_before_the_read_costs_no_second_one(
    read: Read, consistent: Consistent, torn: TornReadBackend
) -> None:
    await consistent.write("2")
    assert await read(consistent) == ("2", 2.0)
    assert torn.reads == 1


@READS
async def test_a_document_that_is_written_all_the_time_is_read_under_the_write_lock(
    read: Read, consistent: Consistent, torn: TornReadBackend
) -> None:
    writers: list[asyncio.Task[None]] = []

    async def one_more() -> None:
        writers.append(asyncio.create_task(consistent.write(str(len(writers) + 2))))
        await asyncio.wait(writers, timeout=0.2)

    torn.between = [one_more] * (MAX_OPTIMISTIC_READS + 1)
    text, number = await read(consistent)
    assert float(text) == number
    assert torn.reads == MAX_OPTIMISTIC_READS + 1
    await asyncio.gather(*writers)
    assert await consistent.get() == (str(len(writers) + 1), len(writers) + 1)


async def test_a_read_in_one_step_is_never_repeated(consistent: Consistent, torn: TornReadBackend) -> None:
    await consistent.write("2")
    assert (await consistent.backend.call(GetRecords(consistent.id, columns=("documents",)))).texts == ["2"]
    assert torn.reads == 0


@READS
async def test_no_state_is_kept_of_reads_and_writes_that_ended(
    read: Read, consistent: Consistent, torn: TornReadBackend
) -> None:
    async def fail() -> None:
        raise ConnectionError

    torn.between = [fail]
    with pytest.raises(ConnectionError):
        await read(consistent)
    await read(consistent)
    assert consistent.layer.active_collections == 0


@pytest.fixture(params=["stack-remote", "stack-embedded"])
async def stack(request: pytest.FixtureRequest, location: StoreLocation, tmp_path: Path) -> AsyncIterator[Store]:
    """A whole stack of stores, in a folder of its own: the session's folder may be locked by another process."""
    store = STORES[request.param](replace(location, folder=tmp_path))
    await store.start()
    yield store
    await store.close()


async def test_beside_upserts_every_read_returns_one_of_them(stack: Store, name: str) -> None:
    """Of 480 such reads of Chroma itself, some twenty mix two."""
    await stack.create_collection(name, {}, "l2")
    await upsert_documents(stack, name, batch("a", text="1"))
    written, ended = 1, False

    async def write() -> None:
        nonlocal written
        while not ended:
            written += 1
            document = batch("a", text=str(written))
            document.embeddings[:][0] = written, 1
            await upsert_documents(stack, name, document)

    async def get() -> None:
        for _ in range(60):
            found = await stack.get(name, EVERYTHING, with_embeddings=True)
            assert found.embeddings is not None
            assert [float(text) for text in found.texts] == found.embeddings[:, 0].tolist()

    async def query() -> None:
        for _ in range(60):
            (hits,) = (await stack.query(name, [make_query(0, 1)])).matches
            assert [float(text) ** 2 for text in hits.texts] == hits.distances

    writers = [asyncio.create_task(write()) for _ in range(2)]
    try:
        await asyncio.gather(*(read() for read in (get, query) for _ in range(4)))
    finally:
        ended = True
        await asyncio.gather(*writers)
    await stack.delete_collection(name)
