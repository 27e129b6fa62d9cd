"""`QuotaLayer`: keeps calls within Chroma's quotas, and notices when Chroma returns less than was requested.

Distributed Chroma rejects a call that exceeds a quota, or returns less than was requested. Reads become pages and
chunks of ids; so do deletions. The number of records of a write is limited by `GetMaxBatchSize`, which is one number
for all layers above this one.

A quota that is not set is learned: from Chroma's rejection, which names the limit, or from a page that is shorter than
was requested although there are more records. Such a page cannot be seen from its length alone. But Chroma truncates
all pages at one number, so a page that is shorter than a complete one before it is complete, too. Only a page that is
longer than all complete ones so far is checked: by a longer page without a filter, and where the collection has none,
by reading the record after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar, cast

import numpy as np
from msgspec.structs import replace

from ragstore.chroma.layers.layered_backend import BackendLayer, NextCall
from ragstore.chroma.operations import (
    AddRecords,
    DeleteRecords,
    GetMaxBatchSize,
    GetRecords,
    GetWriteTokens,
    Operation,
    QueryRecords,
    UndoAdd,
    UpsertRecords,
)
from ragstore.chroma.quotas import UNLIMITED, Quotas, is_of_records
from ragstore.chroma.records import Records
from ragstore.errors import ChromaQuotaExceeded

T = TypeVar("T")

MAX_LESSONS: Final = 4
"""How often an operation is repeated with a quota that was learned from its rejection."""

MIN_CHECKED: Final = 100
"""Pages of fewer records are not checked for truncation. No quota is known to be lower."""

PROBE: Final = 10_000
"""Records of the page that shows, once for all shorter pages, that Chroma does not truncate them. It has only ids and
no filter, and takes Chroma 25 ms, however long it takes to evaluate a filter."""


class QuotaLayer(BackendLayer):
    """Keeps to quotas.

    Args:
        quotas: the known quotas. The layer learns more.
    """

    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas
        self._longest_complete = 0

    def concerns(self, kind: type[Operation[object]]) -> bool:
        """Concerns reads, writes and deletions of records."""
        kinds = (AddRecords, UpsertRecords, GetMaxBatchSize, GetRecords, GetWriteTokens, QueryRecords)
        return issubclass(kind, (*kinds, DeleteRecords, UndoAdd))

    async def call(self, next_call: NextCall[T], operation: Operation[T]) -> T:
        """Execute an operation within the quotas, and again with the quotas that Chroma's rejection names."""
        for _ in range(MAX_LESSONS):
            try:
                return await self._call(next_call, operation)
            except ChromaQuotaExceeded as error:
                if not self._learn(operation, error):
                    raise
        return await self._call(next_call, operation)

    async def _call(self, next_call: NextCall[T], operation: Operation[T]) -> T:
        # The types of an operation and its result belong together, which a type checker does not see in `match`.
        execute = cast("NextCall[Any]", next_call)
        given: Operation[Any] = operation
        match given:
            case GetMaxBatchSize():
                return cast("T", min(await execute(given), self.quotas.write))
            case GetRecords():
                self.quotas.check_filter(given.where, given.where_document)
                return cast("T", await self._get(execute, given))
            case GetWriteTokens():
                tokens: dict[str, str | None] = {}
                for ids in _chunks(given.ids, self.quotas.ids_of_get):
                    tokens |= await execute(replace(given, ids=ids))
                return cast("T", tokens)
            case DeleteRecords() | UndoAdd():
                for ids in _chunks(given.ids, self.quotas.write):
                    await execute(replace(given, ids=ids))
                return cast("T", None)
            case QueryRecords():
                self.quotas.check_filter(given.where, given.where_document)
                return cast("T", await execute(self._within_quotas(given)))
            case AddRecords() | UpsertRecords():
                self.quotas.check_records(given.records)
        return await next_call(operation)

    def _within_quotas(self, query: QueryRecords) -> QueryRecords:
        """A query within the quotas. The store completes a result that is shorter than it may be."""
        if query.matching_ids is not None and len(query.matching_ids) > self.quotas.ids_of_get:
            query = replace(query, matching_ids=None)
        return query if query.n_results <= self.quotas.read else replace(query, n_results=self.quotas.read)

    async def _get(self, next_call: NextCall[Records], operation: GetRecords) -> Records:
        if operation.ids is not None and len(operation.ids) > self.quotas.ids_of_get:
            return await self._get_chunks(next_call, operation, operation.ids)
        wanted = UNLIMITED if operation.limit is None else operation.limit
        if wanted <= self.quotas.read or (operation.ids is not None and len(operation.ids) <= self.quotas.read):
            found = await next_call(operation)
            if self.quotas.read < UNLIMITED or not await self._is_truncated(next_call, operation, found, wanted):
                return found
        return await self._get_pages(next_call, operation, wanted)

    async def _get_pages(self, next_call: NextCall[Records], operation: GetRecords, wanted: int) -> Records:
        """Read page after page."""
        pages: list[Records] = []
        count = 0
        while count < wanted:
            limit = min(self.quotas.read, wanted - count)
            page = await next_call(replace(operation, limit=limit, offset=operation.offset + count))
            pages.append(page)
            count += len(page.ids)
            if len(page.ids) < limit:
                break
        return _joined(pages)

    async def _get_chunks(self, next_call: NextCall[Records], operation: GetRecords, ids: list[str]) -> Records:
        """Read chunk after chunk of ids, and put the records into the order of their collection."""
        unlimited = replace(operation, limit=None, offset=0)
        chunks = [await next_call(replace(unlimited, ids=chunk)) for chunk in _chunks(ids, self.quotas.ids_of_get)]
        found = _joined(chunks)
        if not operation.in_order:
            return found
        wanted = set(found.ids)
        rank: dict[str, int] = {}
        offset = 0
        while len(rank) < len(wanted):
            # An operation of its own: the quota of this read may be unknown, and then it learns it.
            limit = None if self.quotas.read == UNLIMITED else self.quotas.read
            page = await self.call(next_call, GetRecords(operation.collection_id, limit=limit, offset=offset))
            rank |= {key: offset + index for index, key in enumerate(page.ids) if key in wanted}
            offset += len(page.ids)
            if len(page.ids) < self.quotas.read:
                break
        order = sorted(range(len(found.ids)), key=lambda index: rank.get(found.ids[index], UNLIMITED))
        end = None if operation.limit is None else operation.offset + operation.limit
        return _selected(found, order[operation.offset : end])

    async def _is_truncated(
        self, next_call: NextCall[Records], operation: GetRecords, found: Records, wanted: int
    ) -> bool:
        """Whether there are more records than Chroma returned, although more were wanted. Then the quota is known."""
        count = len(found.ids)
        is_full = count >= wanted or (operation.ids is not None and count == len(operation.ids))
        if is_full or count < max(MIN_CHECKED, self._longest_complete):
            self._longest_complete = max(count, self._longest_complete)
            return False
        if count < PROBE and operation.ids is None:
            probe = await next_call(GetRecords(operation.collection_id, limit=PROBE))
            if len(probe.ids) > count:
                self._longest_complete = len(probe.ids)
                return False
        after = replace(operation, limit=1, offset=operation.offset + count, columns=())
        if operation.ids is not None:
            known = set(found.ids)
            missing = [key for key in operation.ids if key not in known]
            after = replace(after, ids=missing[:MIN_CHECKED], offset=0)
        if (await next_call(after)).ids:
            self.quotas.read = count
            return True
        self._longest_complete = count
        return False

    def _learn(self, operation: Operation[object], error: ChromaQuotaExceeded) -> bool:
        """Learn a quota from a rejection.

        Returns:
            Whether the operation can be repeated within it.
        """
        limit, quotas = error.limit, self.quotas
        if not is_of_records(error):
            return False
        match operation:
            case GetRecords() | GetWriteTokens() if operation.ids is not None and limit < len(operation.ids):
                is_new, quotas.ids = limit < quotas.ids_of_get, limit
            case QueryRecords() if operation.matching_ids is not None and limit < len(operation.matching_ids):
                is_new, quotas.ids = limit < quotas.ids_of_get, limit
            case GetRecords() | QueryRecords():
                is_new, quotas.read = limit < quotas.read, limit
            case DeleteRecords() | UndoAdd():
                is_new, quotas.write = limit < quotas.write, limit
            case AddRecords() | UpsertRecords():
                # A write is not split here. The store above splits what it merged, or reports the limit.
                is_new, quotas.write = False, limit
            case _:
                is_new = False
        return is_new


def _chunks(ids: Sequence[str], size: int) -> Iterator[list[str]]:
    for start in range(0, max(1, len(ids)), size):
        yield list(ids[start : start + size])


def _joined(pages: Sequence[Records]) -> Records:
    """Records of several reads of the same columns."""
    if len(pages) == 1:
        return pages[0]
    embeddings = [page.embeddings for page in pages if page.embeddings is not None and len(page.ids)]
    has_embeddings = bool(pages) and pages[0].embeddings is not None
    return Records(
        [key for page in pages for key in page.ids],
        _column([page.texts for page in pages]),
        _column([page.metadatas for page in pages]),
        None
        if not has_embeddings
        else np.concatenate(embeddings)
        if embeddings
        else np.empty((0, 0), dtype=np.float32),
    )


def _column(columns: list[list[T] | None]) -> list[T] | None:
    if not columns or columns[0] is None:
        return None
    return [value for column in columns for value in column or []]


def _selected(records: Records, indexes: list[int]) -> Records:
    """Some records, in the order of their indexes."""
    return Records(
        [records.ids[index] for index in indexes],
        None if records.texts is None else [records.texts[index] for index in indexes],
        None if records.metadatas is None else [records.metadatas[index] for index in indexes],
        None if records.embeddings is None else records.embeddings[indexes],
    )
