"""Documents into a collection, from a file or from another service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from ragstore.cosine import sendable
from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.documents import Document, likeness, matrix_of
from ragstore.transfer.failures import NotVerified, TransferFailed
from ragstore.transfer.format import ExportReader
from ragstore.transfer.progress import TransferProgress
from ragstore.transfer.remote import Service

BATCH_BYTES: Final = 4 * 1024 * 1024
"""About as many bytes as one request carries; the service is asked for less where that is too much for it."""


@dataclass
class Imported:
    """What an import came to.

    Attributes:
        documents: that were to be stored.
        written: of them, those that were sent.
        skipped: of them, those that were there already.
        rounded: of those that were compared, the ones that Chroma has rounded.
    """

    documents: int = 0
    written: int = 0
    skipped: int = 0
    rounded: int = 0


class Importer:
    """Writes documents into a collection, one batch after the other, so that they stay in their order.

    Args:
        service: where the collection shall be.
        collection: name, metadata and distance of it, and the dimension of the documents.
        merge: whether it may exist. Documents that are there already are passed over then.
        verify: whether each batch is read back and compared.
    """

    def __init__(self, service: Service, collection: CountedCollection, *, merge: bool, verify: bool) -> None:
        self._service = service
        self._collection = collection
        self._merge = merge
        self._verify = verify
        self._exists = False
        self._before = 0
        self._new = 0
        self.outcome = Imported()

    async def begin(self) -> None:
        """Create the collection, or look at the one that is there.

        Raises:
            TransferFailed: it exists and may not, or is not one that the documents fit into.
        """
        wanted = self._collection
        if await self._service.create(wanted):
            return
        if not self._merge:
            raise TransferFailed(
                f"{self._service.address}: Collection '{wanted.name}' exists. --resume goes on with an import that was "
                "cut off, or adds to what is there; --into gives another name"
            )
        there = await self._service.collection(wanted.name)
        if there.distance != wanted.distance:
            raise TransferFailed(
                f"Collection '{there.name}' has the distance {there.distance}, and the documents {wanted.distance}"
            )
        if wanted.count and there.dimension not in (None, wanted.dimension):
            raise TransferFailed(
                f"Collection '{there.name}' has the dimension {there.dimension}, and the documents {wanted.dimension}"
            )
        self._exists, self._before = True, there.count

    async def write(self, documents: list[Document]) -> None:
        """Write a batch.

        Args:
            documents: one or more.

        Raises:
            NotVerified: it was read back and is not the same.
        """
        missing = await self._missing(documents) if self._exists else documents
        if not self._exists:
            self._new += len(documents)
        if missing:
            await self._service.upsert(self._collection.name, self._sent(missing))
            if self._verify:
                await self._compare(missing)
        self.outcome.documents += len(documents)
        self.outcome.written += len(missing)
        self.outcome.skipped += len(documents) - len(missing)

    async def finish(self) -> None:
        """Compare the service's count with what it must be.

        Raises:
            NotVerified: it is another one.
        """
        expected = self._before + self._new
        there = await self._service.collection(self._collection.name)
        if there.count != expected:
            raise NotVerified(
                f"Collection '{there.name}' holds {there.count} documents and should hold {expected}: "
                "documents were lost, or others write to it"
            )

    async def _missing(self, documents: list[Document]) -> list[Document]:
        """Those that are not there, or not the same."""
        there = await self._service.documents(self._collection.name, [document.id for document in documents])
        self._new += len(documents) - len(there)
        return [document for document in documents if not self._is_kept(document, there.get(document.id))]

    async def _compare(self, documents: list[Document]) -> None:
        there = await self._service.documents(self._collection.name, [document.id for document in documents])
        for document in documents:
            if not self._is_kept(document, there.get(document.id)):
                raise NotVerified(f"Document '{document.id}' is not stored as it was sent")

    def _is_kept(self, wanted: Document, found: Document | None) -> bool:
        """Whether a document is stored, if with what Chroma rounds."""
        if found is None:
            return False
        alike = likeness(wanted, found, self._collection.distance)
        self.outcome.rounded += alike == "rounded"
        return alike != "other"

    def _sent(self, documents: list[Document]) -> list[Document]:
        if self._collection.distance != "cosine":
            return documents
        rows = sendable(matrix_of(documents)).astype("<f4", copy=False)
        return [
            msgspec.structs.replace(document, embedding=row.tobytes())
            for document, row in zip(documents, rows, strict=True)
        ]


async def import_from(reader: ExportReader, importer: Importer, size: int, progress: TransferProgress) -> Imported:
    """Import what a file holds.

    Args:
        reader: the file.
        importer: where it goes.
        size: most documents in a batch.
        progress: is told how far this is.

    Returns:
        What it came to.

    Raises:
        NotVerified: the file is damaged, or what is stored is not what was sent.
    """
    await importer.begin()
    progress.begin(reader.collection.count)
    for batch in batches(reader.documents(), size):
        await importer.write(batch)
        progress.advance(len(batch))
    await importer.finish()
    return importer.outcome


def batches(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    """Documents in batches of bounded size.

    Args:
        documents: the documents.
        size: most documents in one batch.

    Yields:
        Batches of one document or more.
    """
    batch: list[Document] = []
    held = 0
    for document in documents:
        if batch and (len(batch) == size or held + document.size > BATCH_BYTES):
            yield batch
            batch, held = [], 0
        batch.append(document)
        held += document.size
    if batch:
        yield batch


def check(reader: ExportReader) -> None:
    """Read an export to its end, to know that it is whole before anything is written.

    Args:
        reader: the export.

    Raises:
        NotVerified: it is cut short or damaged.
    """
    for _ in reader.documents():
        pass
