"""Work on large collections in bounded steps: each step is one or two calls to Chroma with at most a page of records.

A completed step is never repeated. Work that exceeds the time of its request is continued by the next request:
deletions because the records of earlier steps are gone, scans because `ScanProgress` keeps how far they got.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from ragstore.chroma.backend import Backend
from ragstore.chroma.operations import DeleteRecords, GetRecords
from ragstore.chroma.records import RecordBatch
from ragstore.errors import ChromaFailed
from ragstore.model.documents import Selection
from ragstore.model.metadata import Metadata

MAX_PAGE: Final = 5_000
"""Maximum number of records in a page of metadata. Of records with 20 keys, Chroma 1.5.9 reads 7,500 a second."""

SCAN_SECONDS: Final = 60.0
"""How long the progress of a scan is kept after its last step."""

MAX_SCANS: Final = 32
"""Scans whose progress is kept. Beyond that the oldest is dropped."""

MAX_REPLACED: Final = 500
"""Maximum number of documents that embedded Chroma replaces in one call."""

MAX_REPLACED_NUMBERS: Final = 400_000
"""Maximum number of numbers in their embeddings."""

Purpose: TypeAlias = Literal["lists", "values"]


async def delete_in_steps(backend: Backend, collection_id: str, selection: Selection, max_batch: int) -> int:
    """Delete the selected records, a page after the other.

    Args:
        backend: Chroma.
        collection_id: the collection.
        selection: the records to delete.
        max_batch: maximum number of records in a step.

    Returns:
        The number of records that existed and were deleted.

    Raises:
        ChromaFailed: Chroma accepts deletions and does not apply them.
    """
    deleted = 0
    for ids in _chunks(selection.ids, max_batch):
        previous: list[str] = []
        while True:
            page = await backend.call(
                GetRecords(
                    collection_id,
                    ids,
                    where=selection.condition.chroma_where,
                    where_document=selection.condition.chroma_where_document,
                    limit=max_batch if ids is None else None,
                )
            )
            if page.ids and page.ids == previous:
                raise ChromaFailed("Chroma does not apply deletions")
            if page.ids:
                await backend.call(DeleteRecords(collection_id, page.ids))
                deleted += len(page.ids)
            if ids is not None or len(page.ids) < max_batch:
                break
            previous = page.ids
    return deleted


def _chunks(ids: tuple[str, ...] | None, size: int) -> Iterator[list[str] | None]:
    """Ids in chunks; one None for no ids."""
    if ids is None:
        yield None
        return
    for start in range(0, len(ids), size):
        yield list(ids[start : start + size])


def replacement_steps(records: RecordBatch, replaced: int, backend: Backend) -> Iterator[RecordBatch]:
    """Split an upsert that embedded Chroma would take too long for.

    Embedded Chroma executes one call at a time. Replacing a document of 768 dimensions takes 5 to 10 ms, ten times as
    long as adding it, so 5,461 of them would stop all other calls for more than a minute.

    Args:
        replaced: number of records that exist already.
        backend: Chroma.

    Yields:
        Records, in their order.
    """
    # A backend whose adds are not conditional is embedded Chroma.
    size = max(1, min(MAX_REPLACED, MAX_REPLACED_NUMBERS // max(1, records.embeddings.shape[1])))
    if backend.has_conditional_add or replaced <= size:
        yield records
        return
    for start in range(0, len(records.ids), size):
        rows = slice(start, start + size)
        yield RecordBatch(records.ids[rows], records.embeddings[rows], records.texts[rows], records.metadatas[rows])


@dataclass(slots=True)
class Scan:
    """How far a scan of a collection's metadata got.

    Attributes:
        offset: number of records before the next page.
        values: what it found so far.
        touched: when it made its last step.
    """

    offset: int = 0
    values: set[str] = field(default_factory=set)
    touched: float = 0.0


class ScanProgress:
    """The progress of scans that did not reach the end of their collection.

    Args:
        clock: the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._scans: dict[tuple[str, Purpose, str], Scan] = {}

    def __len__(self) -> int:
        return len(self._scans)

    def resume(self, collection_id: str, purpose: Purpose, key: str = "") -> Scan:
        """The scan that was interrupted, or a new one.

        Args:
            collection_id: the collection.
            purpose: what it looks for.
            key: the metadata key that it concerns, if it concerns one.
        """
        now = self._clock()
        self._scans = {name: scan for name, scan in self._scans.items() if now - scan.touched < SCAN_SECONDS}
        scan = self._scans.pop((collection_id, purpose, key), None) or Scan()
        scan.touched = now
        if len(self._scans) >= MAX_SCANS:
            self._scans.pop(next(iter(self._scans)))
        self._scans[collection_id, purpose, key] = scan
        return scan

    def step(self, scan: Scan, records: int) -> None:
        """Record that a scan got further.

        Args:
            records: number of records that it need not read again.
        """
        scan.offset += records
        scan.touched = self._clock()

    def forget(self, collection_id: str) -> None:
        """Drop the scans of a collection whose records change or whose scan is complete. Scans that run continue."""
        for name in [name for name in self._scans if name[0] == collection_id]:
            del self._scans[name]


async def collect_values(
    backend: Backend,
    collection_id: str,
    page_size: int,
    scans: ScanProgress,
    key: str,
    values_of: Callable[[Metadata], Iterator[str]],
) -> set[str]:
    """Collect the values of a metadata key, a page of records after the other.

    Args:
        backend: Chroma.
        collection_id: the collection.
        page_size: maximum number of records in a step.
        scans: has the progress of an interrupted scan, and gets the progress of this one.
        key: the metadata key.
        values_of: the values of one record.

    Returns:
        The distinct values.
    """
    scan = scans.resume(collection_id, "values", key)
    while True:
        page = await backend.call(
            GetRecords(collection_id, limit=page_size, offset=scan.offset, columns=("metadatas",))
        )
        for metadata in page.metadatas or []:
            scan.values.update(values_of(metadata))
        if len(page.ids) < page_size:
            # Kept no longer: the next request is to see what was written since.
            scans.forget(collection_id)
            return scan.values
        scans.step(scan, len(page.ids))


async def delete_lists_in_steps(backend: Backend, collection_id: str, page_size: int, scans: ScanProgress) -> None:
    """Delete the records whose metadata holds lists.

    Args:
        backend: Chroma.
        collection_id: the collection.
        page_size: maximum number of records in a step.
        scans: has the progress of an interrupted scan, and gets the progress of this one.
    """
    scan = scans.resume(collection_id, "lists")
    while True:
        page = await backend.call(
            GetRecords(collection_id, limit=page_size, offset=scan.offset, columns=("metadatas",))
        )
        listed = [
            record_id
            for record_id, metadata in zip(page.ids, page.metadatas or [], strict=True)
            if any(isinstance(value, list) for value in metadata.values())
        ]
        if listed:
            await backend.call(DeleteRecords(collection_id, listed))
        if len(page.ids) < page_size:
            return
        scans.step(scan, len(page.ids) - len(listed))
