"""Deletions and scans of large collections: bounded steps, each of which counts even if the request ends before all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TypeVar

import pytest

from ragstore.chroma.chroma_store import ChromaStore
from ragstore.chroma.layers.layered_backend import BackendLayer, LayeredBackend, NextCall
from ragstore.chroma.operations import DeleteRecords, GetRecords, Operation
from ragstore.chroma.records import Records
from ragstore.chroma.steps import MAX_SCANS, SCAN_SECONDS, ScanProgress
from ragstore.errors import ChromaFailed, ChromaTimeout, CollectionNotFound
from ragstore.model.documents import EVERYTHING
from ragstore.model.metadata import Metadata
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, batch, batch_of, of_ids, of_where, upsert_documents
from tests.support.stores import StoreLocation, http_backend

T = TypeVar("T")

STEP = 10
TOTAL = 45


class StepLimit(BackendLayer):
    """Records reads and deletions of records, and lets the time of a request run out after some of them.

    Attributes:
        reads: the reads so far.
        left: number of reads until the time runs out; None for no limit.
        applies_deletions: whether deletions are passed on.
    """

    def __init__(self) -> None:
        self.reads: list[GetRecords] = []
        self.left: int | None = None
        self.applies_deletions = True

    async def call(self, next_call: NextCall[T], operation: Operation[T]) -> T:
        if isinstance(operation, GetRecords):
            if self.left == 0:
                raise ChromaTimeout("The time is over")
            self.left = None if self.left is None else self.left - 1
            self.reads.append(operation)
        if isinstance(operation, DeleteRecords):
            assert len(operation.ids) <= STEP
            if not self.applies_deletions:
                return None  # type: ignore[return-value]  # the result of a deletion
        result = await next_call(operation)
        assert not isinstance(result, Records) or len(result.ids) <= STEP
        return result


@pytest.fixture
def steps() -> StepLimit:
    """The layer around the backend of `small_steps`."""
    return StepLimit()


@pytest.fixture
async def small_steps(steps: StepLimit, location: StoreLocation) -> AsyncIterator[Store]:
    """A store with small steps."""
    backend = LayeredBackend(http_backend(location.chroma_url, location.database), [steps])
    store = ChromaStore(backend, STEP)
    await store.start()
    yield store
    await store.close()


@pytest.fixture
async def filled(small_steps: Store, steps: StepLimit, name: str) -> AsyncIterator[str]:
    """A collection of more documents than one step takes; every third has a list."""
    await small_steps.create_collection(name, {}, "l2")
    for first in range(0, TOTAL, STEP):
        documents = batch(*(str(number) for number in range(first, min(TOTAL, first + STEP))))
        metadatas: list[Metadata] = []
        for number in map(int, documents.ids):
            metadatas.append({"number": number, "even": number % 2 == 0})
            if number % 3 == 0:
                metadatas[-1]["list"] = ["x", f"item {number}"]
        await add_documents(small_steps, name, replace(documents, metadatas=metadatas))
    steps.reads.clear()
    yield name
    steps.left, steps.applies_deletions = None, True
    if name in {found.name for found in await small_steps.list_collections(None, 0)}:
        await small_steps.delete_collection(name)


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        (EVERYTHING, TOTAL),
        (of_where({"even": True}), 23),
        (of_where({"number": 7}), 1),
        (of_where({"number": -1}), 0),
        (of_ids(*(str(number) for number in range(20, 60))), 25),
    ],
)
async def test_a_deletion_of_any_size_is_made_in_steps_and_counts_all(
    small_steps: Store, filled: str, selection: object, count: int
) -> None:
    assert await small_steps.delete(filled, selection) == count  # type: ignore[arg-type]  # a Selection
    assert await small_steps.count(filled) == TOTAL - count


async def test_a_deletion_that_runs_out_of_time_is_continued_by_the_next(
    small_steps: Store, steps: StepLimit, filled: str
) -> None:
    steps.left = 2
    with pytest.raises(ChromaTimeout):
        await small_steps.delete(filled, EVERYTHING)
    assert await small_steps.count(filled) == TOTAL - 2 * STEP
    steps.left = None
    assert await small_steps.delete(filled, EVERYTHING) == TOTAL - 2 * STEP


async def test_deletions_that_chroma_does_not_apply_are_a_failure(
    small_steps: Store, steps: StepLimit, filled: str
) -> None:
    steps.applies_deletions = False
    with pytest.raises(ChromaFailed, match="does not apply deletions"):
        await small_steps.delete(filled, EVERYTHING)


async def test_the_values_of_a_metadata_key_are_those_of_all_steps(small_steps: Store, filled: str) -> None:
    assert await small_steps.get_metadata_values(filled, "number") == {str(number) for number in range(TOTAL)}
    assert await small_steps.get_metadata_values(filled, "even") == {"true", "false"}
    assert len(await small_steps.get_metadata_values(filled, "list")) == 16
    assert await small_steps.get_metadata_values(filled, "absent") == set()


async def test_a_scan_for_values_that_runs_out_of_time_is_continued_by_the_next(
    small_steps: Store, steps: StepLimit, filled: str
) -> None:
    expected = {str(number) for number in range(TOTAL)}
    for _ in range(2):
        steps.left = 2
        with pytest.raises(ChromaTimeout):
            await small_steps.get_metadata_values(filled, "number")
    steps.left = 2
    assert await small_steps.get_metadata_values(filled, "number") == expected
    assert [read.offset for read in steps.reads] == [0, 10, 20, 30, 40]
    steps.left = None
    steps.reads.clear()
    assert await small_steps.get_metadata_values(filled, "number") == expected
    assert steps.reads[0].offset == 0


@pytest.mark.parametrize("write", ["upsert", "delete"])
async def test_a_scan_sees_what_was_written_since_it_was_interrupted(
    small_steps: Store, steps: StepLimit, filled: str, write: str
) -> None:
    steps.left = 3
    with pytest.raises(ChromaTimeout):
        await small_steps.get_metadata_values(filled, "number")
    steps.left = None
    if write == "upsert":
        changed = batch_of([{"number": 1000}])
        await upsert_documents(small_steps, filled, changed)
        expected = {str(number) for number in range(1, TOTAL)} | {"1000"}
    else:
        await small_steps.delete(filled, of_ids("0"))
        expected = {str(number) for number in range(1, TOTAL)}
    assert await small_steps.get_metadata_values(filled, "number") == expected


async def test_the_deletion_of_a_collection_that_runs_out_of_time_is_continued_by_the_next(
    small_steps: Store, steps: StepLimit, filled: str
) -> None:
    for _ in range(2):
        steps.left = 2
        with pytest.raises(ChromaTimeout):
            await small_steps.delete_collection(filled)
    steps.left = 2
    await small_steps.delete_collection(filled)
    with pytest.raises(CollectionNotFound):
        await small_steps.get_collection(filled)


async def test_the_lists_of_a_deleted_collection_do_not_appear_in_a_later_one(
    small_steps: Store, steps: StepLimit, filled: str, name: str
) -> None:
    steps.left = 2
    with pytest.raises(ChromaTimeout):
        await small_steps.delete_collection(filled)
    steps.left = None
    await small_steps.delete_collection(filled)
    await small_steps.create_collection(name, {}, "l2")
    for first in range(0, TOTAL, STEP):
        await add_documents(small_steps, name, batch(*(f"n{number}" for number in range(first, first + STEP))))
    assert (await small_steps.get(name, EVERYTHING, limit=STEP)).metadatas == [{}] * STEP
    assert await small_steps.get_metadata_values(name, "list") == set()


def test_the_progress_of_a_scan_is_kept_for_a_while_only() -> None:
    now = [0.0]
    scans = ScanProgress(lambda: now[0])
    scans.step(scans.resume("c", "values", "key"), 10)
    now[0] += SCAN_SECONDS - 1
    assert scans.resume("c", "values", "key").offset == 10
    assert scans.resume("c", "values", "other").offset == 0
    now[0] += SCAN_SECONDS
    assert scans.resume("c", "values", "key").offset == 0


def test_only_so_many_scans_are_kept() -> None:
    scans = ScanProgress()
    for number in range(MAX_SCANS + 5):
        scans.resume(str(number), "lists")
    assert len(scans) == MAX_SCANS
