"""`CollectionCopy`: copies the documents of a collection to another one, in their order, while they are changed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from ragstore.chroma.backend import Backend
from ragstore.chroma.change_recorder import Changes
from ragstore.chroma.merging import upsert_metadata
from ragstore.chroma.operations import DeleteRecords, GetRecords, UpsertRecords
from ragstore.chroma.records import RecordBatch, Records, to_matrix
from ragstore.errors import ChromaFailed
from ragstore.model.metadata import Metadata

FIRST_PAGE: Final = 16
"""Number of documents in the first page, before the size of the texts is known."""

MAX_PAGE: Final = 500

MAX_PAGE_NUMBERS: Final = 50_000
"""Maximum number of numbers in the embeddings of a page. Embedded Chroma executes one call at a time: it takes 0.1 s to
write 130 embeddings of 384 (1.5.9), for which readers wait."""

MAX_PAGE_CHARACTERS: Final = 4 * 1024**2
"""Intended maximum of the characters in the texts of a page."""


class CollectionCopy:
    """A copy of a collection.

    Args:
        backend: Chroma.
        source_id: the collection that is copied.
        target_id: the copy.
        max_batch: maximum number of ids in a call.
        advance: called with the number of documents of each page that is appended.
    """

    def __init__(
        self, backend: Backend, source_id: str, target_id: str, max_batch: int, advance: Callable[[int], object]
    ) -> None:
        self._backend = backend
        self._source_id = source_id
        self._target_id = target_id
        self._max_batch = max_batch
        self._advance = advance
        self._page = FIRST_PAGE

    async def append(self, ids: Sequence[str]) -> None:
        """Copy documents that the copy does not have. Ids without a document are skipped.

        Args:
            ids: ids in insertion order.
        """
        async for records in self._pages(ids):
            await self._write(records, [{}] * len(records.ids))
            self._advance(len(records.ids))

    async def apply(self, changes: Changes) -> None:
        """Apply changes of the collection to the copy.

        Documents that were deleted are deleted here, too. If they exist again, they are appended.
        """
        await self._delete(changes.deleted)
        ids = await self._existing(changes.written | changes.deleted)
        await self._delete(changes.written - changes.deleted - set(ids))
        async for records in self._pages(ids):
            found = await self._backend.call(
                GetRecords(self._target_id, records.ids, columns=("metadatas",), in_order=False)
            )
            before = dict(zip(found.ids, found.metadatas or [], strict=True))
            await self._write(records, [before.get(key, {}) for key in records.ids])

    async def complete(self) -> None:
        """Compare the ids of both collections, while nothing is written, and correct the order of late documents.

        Two documents that were deleted and written again while the changes before were applied may be in another order
        than in the collection. All of them are behind the documents that were not changed.

        Raises:
            ChromaFailed: the copy has other documents than the collection.
        """
        wanted, copied = await self._ids(self._source_id), await self._ids(self._target_id)
        if wanted != copied:
            same = next((row for row, pair in enumerate(zip(wanted, copied, strict=False)) if pair[0] != pair[1]), None)
            first = min(len(wanted), len(copied)) if same is None else same
            await self._delete(copied[first:])
            await self.append(wanted[first:])
            copied = await self._ids(self._target_id)
        if wanted != copied:
            raise ChromaFailed("The copy of the collection has other documents than the collection")

    async def set_dimension(self, dimension: int) -> None:
        """Give the copy of a collection without documents its dimension, by a document that is deleted again."""
        await self._backend.call(
            UpsertRecords(self._target_id, RecordBatch(["-"], to_matrix([[1.0] * dimension]), ["-"], [None]))
        )
        await self._delete(["-"])

    async def _pages(self, ids: Sequence[str]) -> AsyncIterator[Records]:
        start = 0
        while start < len(ids):
            page = list(ids[start : start + self._page])
            records = await self._backend.call(
                GetRecords(self._source_id, page, columns=("documents", "metadatas", "embeddings"))
            )
            if records.ids:
                yield records
                self._fit_page(records)
            start += len(page)

    def _fit_page(self, records: Records) -> None:
        """Choose the size of the next page by the size of this one's documents."""
        characters = sum(map(len, records.texts or [])) // len(records.ids) + 1
        dimension = 1 if records.embeddings is None else max(1, records.embeddings.shape[1])
        most = min(MAX_PAGE, self._max_batch, MAX_PAGE_NUMBERS // dimension, MAX_PAGE_CHARACTERS // characters)
        self._page = max(1, min(2 * self._page, most))

    async def _write(self, records: Records, before: Sequence[Metadata]) -> None:
        metadatas = [upsert_metadata(*pair) for pair in zip(records.metadatas or [], before, strict=True)]
        embeddings = to_matrix(None) if records.embeddings is None else records.embeddings
        batch = RecordBatch(records.ids, embeddings, records.texts or [], metadatas)
        await self._backend.call(UpsertRecords(self._target_id, batch))

    async def _existing(self, ids: set[str]) -> list[str]:
        """The ids that the collection has, in insertion order."""
        if len(ids) <= self._max_batch:
            return (await self._backend.call(GetRecords(self._source_id, list(ids)))).ids if ids else []
        return [key for key in await self._ids(self._source_id) if key in ids]

    async def _ids(self, collection_id: str) -> list[str]:
        return (await self._backend.call(GetRecords(collection_id))).ids

    async def _delete(self, ids: Iterable[str]) -> None:
        for chunk in _chunks(ids, self._max_batch):
            await self._backend.call(DeleteRecords(self._target_id, chunk))


def _chunks(ids: Iterable[str], size: int) -> Iterator[list[str]]:
    remaining = iter(ids)
    while chunk := list(islice(remaining, size)):
        yield chunk
