"""What is read of a document is of one write, although Chroma's server reads it in two steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, TypeVar, cast
from uuid import uuid4

import pytest

from ragstore.chroma.backend import Backend, RecordBatch, Records
from ragstore.chroma.layers.consistent_reads import ATTEMPTS, ConsistentReadBackend
from ragstore.chroma.layers.intercepting import Asked, InterceptingBackend
from ragstore.model.documents import EVERYTHING
from ragstore.store.protocol import Store
from tests.support.factories import asked, batch, matrix, upsert_documents
from tests.support.spies import turn
from tests.support.stores import STORES, Place, http_backend

T = TypeVar("T")

Between: TypeAlias = Callable[[], Awaitable[object]]
"""What happens between the two steps of a read."""


async def _nothing() -> None:
    """What happens most of the time."""


class SteppingBackend(InterceptingBackend):
    """A server that reads twice what it reads in two steps, and answers with a part of each.

    Attributes:
        between: what happens between the steps of the next reads.
        reads: how many times it was read in two steps.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.between: list[Between] = []
        self.reads = 0

    async def _through(
        self, asked: Asked, call: Callable[[], Awaitable[T]], *, repeatable: bool = True, two_step_read: bool = False
    ) -> T:
        first = await call()
        if not two_step_read:
            return first
        self.reads += 1
        await (self.between.pop(0) if self.between else _nothing)()
        second = await call()
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
async def stepping(place: Place) -> AsyncIterator[SteppingBackend]:
    """Such a server."""
    backend = SteppingBackend(http_backend(place.chroma_url, "stepping"))
    await backend.start()
    yield backend
    await backend.close()


def _made(*texts: str, ids: tuple[str, ...] = ("a",)) -> RecordBatch:
    """Records whose embeddings begin with the number that their text is."""
    return RecordBatch(
        list(ids), matrix(*([float(text), 0.0] for text in texts)), list(texts), [{"n": int(text)} for text in texts]
    )


class Untorn:
    """A collection over such a server, with the document `a`, whose text is 1 and whose embedding begins with 1."""

    def __init__(self, backend: Backend, collection_id: str) -> None:
        self.backend = ConsistentReadBackend(backend)
        self.id = collection_id

    async def write(self, text: str, document_id: str = "a") -> None:
        """Write a document."""
        await self.backend.upsert(self.id, _made(text, ids=(document_id,)))

    async def get(self) -> tuple[str, float]:
        """The text of `a`, and the number that its embedding begins with."""
        found = await self.backend.get(self.id, ids=["a"], include=("documents", "metadatas", "embeddings"))
        assert found.texts is not None
        assert found.embeddings is not None
        return found.texts[0], float(found.embeddings[0][0])

    async def query(self) -> tuple[str, float]:
        """The text of the nearest document, and the number that its embedding begins with, by its distance."""
        (found,) = await self.backend.query(self.id, matrix([0.0, 0.0]), 1, include=("documents", "metadatas"))
        assert found.texts is not None
        return found.texts[0], found.distances[0] ** 0.5


@pytest.fixture
async def untorn(stepping: SteppingBackend) -> AsyncIterator[Untorn]:
    name = f"t-{uuid4().hex}"
    made = Untorn(stepping, (await stepping.create_collection(name, {}, "l2")).id)
    await made.write("1")
    yield made
    await stepping.delete_collection(name)


READS = pytest.mark.parametrize("read", [Untorn.get, Untorn.query], ids=["get", "query"])
Read: TypeAlias = Callable[[Untorn], Awaitable[tuple[str, float]]]


@READS
async def test_a_document_that_was_written_between_the_steps_is_read_again(
    read: Read, untorn: Untorn, stepping: SteppingBackend
) -> None:
    stepping.between = [lambda: untorn.write("2")]
    assert await read(untorn) == ("2", 2.0)
    assert stepping.reads == 2


@READS
async def test_a_document_that_was_added_again_between_the_steps_is_read_again(
    read: Read, untorn: Untorn, stepping: SteppingBackend
) -> None:
    async def replace() -> None:
        await untorn.backend.delete(untorn.id, ["a"])
        await untorn.backend.add(untorn.id, _made("2"), ["mark"])

    stepping.between = [replace]
    assert await read(untorn) == ("2", 2.0)
    assert stepping.reads == 2


@READS
async def test_a_write_that_began_before_the_read_counts_too(
    read: Read, untorn: Untorn, stepping: SteppingBackend
) -> None:
    writes: list[asyncio.Task[None]] = []

    async def end_of_write() -> None:
        await asyncio.gather(*writes)

    stepping.between = [end_of_write]
    writes.append(asyncio.create_task(untorn.write("2")))
    await turn()
    assert await read(untorn) == ("2", 2.0)


@READS
async def test_a_write_of_another_document_costs_no_second_read(
    read: Read, untorn: Untorn, stepping: SteppingBackend
) -> None:
    stepping.between = [lambda: untorn.write("7", document_id="b")]
    assert await read(untorn) == ("1", 1.0)
    assert stepping.reads == 1


@READS
async def test_a_write_to_another_collection_costs_no_second_read(
    read: Read, untorn: Untorn, stepping: SteppingBackend
) -> None:
    other = (await stepping.create_collection(f"t-{uuid4().hex}", {}, "l2")).id
    stepping.between = [lambda: untorn.backend.upsert(other, _made("2"))]
    assert await read(untorn) == ("1", 1.0)
    assert stepping.reads == 1


@READS
async def test_a_write_that_ended_before_the_read_costs_no_second_one(
    read: Read, untorn: Untorn, stepping: SteppingBackend
) -> None:
    await untorn.write("2")
    assert await read(untorn) == ("2", 2.0)
    assert stepping.reads == 1


@READS
async def test_a_document_that_is_always_being_written_is_read_while_its_writer_waits(
    read: Read, untorn: Untorn, stepping: SteppingBackend
) -> None:
    writers: list[asyncio.Task[None]] = []

    async def one_more() -> None:
        writers.append(asyncio.create_task(untorn.write(str(len(writers) + 2))))
        await asyncio.wait(writers, timeout=0.2)

    stepping.between = [one_more] * (ATTEMPTS + 1)
    text, number = await read(untorn)
    assert float(text) == number
    assert stepping.reads == ATTEMPTS + 1
    await asyncio.gather(*writers)
    assert await untorn.get() == (str(len(writers) + 1), len(writers) + 1)


async def test_what_is_read_in_one_step_is_read_once(untorn: Untorn, stepping: SteppingBackend) -> None:
    await untorn.write("2")
    assert (await untorn.backend.get(untorn.id, include=("documents",))).texts == ["2"]
    assert stepping.reads == 0


@READS
async def test_nothing_is_kept_of_reads_and_writes_that_ended(
    read: Read, untorn: Untorn, stepping: SteppingBackend
) -> None:
    async def fail() -> None:
        raise ConnectionError

    stepping.between = [fail]
    with pytest.raises(ConnectionError):
        await read(untorn)
    await read(untorn)
    assert not untorn.backend._traffic


@pytest.fixture(params=["stack-remote", "stack-embedded"])
async def stack(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> AsyncIterator[Store]:
    """A whole stack of stores, in a folder of its own: the session's may be open in another process."""
    store = STORES[request.param](replace(place, folder=tmp_path))
    await store.start()
    yield store
    await store.close()


async def test_beside_upserts_every_read_is_of_one_of_them(stack: Store, name: str) -> None:
    """Of 480 such reads of Chroma itself, some twenty mix two."""
    await stack.create_collection(name, {}, "l2")
    await upsert_documents(stack, name, batch("a", text="1"))
    written, ended = 1, False

    async def write() -> None:
        nonlocal written
        while not ended:
            written += 1
            document = batch("a", text=str(written))
            document.embeddings[0] = written, 1
            await upsert_documents(stack, name, document)

    async def get() -> None:
        for _ in range(60):
            found = await stack.get(name, EVERYTHING, with_embeddings=True)
            assert found.embeddings is not None
            assert [float(text) for text in found.texts] == found.embeddings[:, 0].tolist()

    async def query() -> None:
        for _ in range(60):
            (hits,) = (await stack.query(name, [asked(0, 1)])).hits
            assert [float(text) ** 2 for text in hits.texts] == hits.distances

    writers = [asyncio.create_task(write()) for _ in range(2)]
    try:
        await asyncio.gather(*(read() for read in (get, query) for _ in range(4)))
    finally:
        ended = True
        await asyncio.gather(*writers)
    await stack.delete_collection(name)
