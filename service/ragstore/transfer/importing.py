"""Writes documents into a collection, from a file or from another service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.documents import Document, compare
from ragstore.transfer.failures import NotVerified, TransferFailed
from ragstore.transfer.format import ExportReader
from ragstore.transfer.progress import TransferProgress
from ragstore.transfer.service import Service

BATCH_BYTES: Final = 4 * 1024 * 1024
"""Approximate maximum size of a request; it is split when the service accepts less."""


@dataclass
class ImportResult:
    """The result of an import.

    Attributes:
        documents: number of documents in the source.
        written: number of documents that were written.
        skipped: number of documents that existed already.
        rounded: number of compared documents that Chroma has rounded.
    """

    documents: int = 0
    written: int = 0
    skipped: int = 0
    rounded: int = 0


class Importer:
    """Writes documents into a collection, one batch after the other, so that they keep their order.

    Args:
        service: the service to write to.
        collection: name, metadata and distance of the collection, and the dimension of the documents.
        merge: whether the collection may exist. Documents that exist and are equal are skipped then.
        verify: whether each batch is read back and compared.
    """

    def __init__(self, service: Service, collection: CountedCollection, *, merge: bool, verify: bool) -> None:
        self._service = service
        self._collection = collection
        self._merge = merge
        self._verify = verify
        self._exists = False
        self._count_before = 0
        self._new = 0
        self.result = ImportResult()

    async def begin(self) -> None:
        """Create the collection, or check the existing one.

        Raises:
            TransferFailed: it exists and must not, or the documents do not fit into it.
        """
        wanted = self._collection
        if await self._service.create(wanted):
            return
        if not self._merge:
            raise TransferFailed(
                f"{self._service.address}: Collection '{wanted.name}' exists. --resume continues an interrupted "
                "import, or adds to the collection; --into gives another name"
            )
        existing = await self._service.collection(wanted.name)
        if existing.distance != wanted.distance:
            raise TransferFailed(
                f"Collection '{existing.name}' has the distance {existing.distance}, and the documents "
                f"{wanted.distance}"
            )
        if wanted.count and existing.dimension not in (None, wanted.dimension):
            raise TransferFailed(
                f"Collection '{existing.name}' has the dimension {existing.dimension}, and the documents "
                f"{wanted.dimension}"
            )
        self._exists, self._count_before = True, existing.count

    async def write(self, documents: list[Document]) -> None:
        """Write a batch.

        Args:
            documents: one or more documents.

        Raises:
            NotVerified: it was read back and differs.
        """
        missing = await self._missing(documents) if self._exists else documents
        if not self._exists:
            self._new += len(documents)
        if missing:
            await self._service.upsert(self._collection.name, missing)
            if self._verify:
                await self._check_stored(missing)
        self.result.documents += len(documents)
        self.result.written += len(missing)
        self.result.skipped += len(documents) - len(missing)

    async def finish(self) -> None:
        """Compare the collection's count with the expected one.

        Raises:
            NotVerified: it differs.
        """
        expected = self._count_before + self._new
        found = await self._service.collection(self._collection.name)
        if found.count != expected:
            raise NotVerified(
                f"Collection '{found.name}' holds {found.count} documents and should hold {expected}: "
                "documents were lost, or others write to it"
            )

    async def _missing(self, documents: list[Document]) -> list[Document]:
        """The documents that do not exist, or differ."""
        stored = await self._service.documents(self._collection.name, [document.id for document in documents])
        self._new += len(documents) - len(stored)
        return [document for document in documents if not self._is_same(document, stored.get(document.id))]

    async def _check_stored(self, documents: list[Document]) -> None:
        stored = await self._service.documents(self._collection.name, [document.id for document in documents])
        for document in documents:
            if not self._is_same(document, stored.get(document.id)):
                raise NotVerified(f"Document '{document.id}' is not stored as it was sent")

    def _is_same(self, expected: Document, stored: Document | None) -> bool:
        """Whether a stored document is the expected one, apart from Chroma's rounding."""
        if stored is None:
            return False
        comparison = compare(expected, stored, self._collection.distance)
        self.result.rounded += comparison == "rounded"
        return comparison != "different"


async def import_from(reader: ExportReader, importer: Importer, size: int, progress: TransferProgress) -> ImportResult:
    """Import the content of a file.

    Args:
        reader: reads the file.
        importer: what writes the documents.
        size: maximum number of documents in a batch.
        progress: shows how many documents are done.

    Returns:
        The result.

    Raises:
        NotVerified: the file is damaged, or a stored document differs from what was sent.
    """
    await importer.begin()
    progress.begin(reader.collection.count)
    try:
        for batch in batches(reader.documents(), size):
            await importer.write(batch)
            progress.advance(len(batch))
    except NotVerified as failure:
        if not progress.done:
            raise
        # A file was checked before; a stream, or a document that Chroma changed, shows only now.
        raise NotVerified(f"{failure}; {progress.done} documents before it are stored") from None
    await importer.finish()
    return importer.result


def batches(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    """Group documents into batches of bounded size.

    Args:
        size: maximum number of documents in a batch.

    Yields:
        Batches of one or more documents.
    """
    batch: list[Document] = []
    batch_bytes = 0
    for document in documents:
        if batch and (len(batch) == size or batch_bytes + document.size_bytes > BATCH_BYTES):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(document)
        batch_bytes += document.size_bytes
    if batch:
        yield batch


def check_file(reader: ExportReader) -> None:
    """Read an export to its end, so that a damaged file is detected before anything is written.

    Args:
        reader: reads the file.

    Raises:
        NotVerified: the file is truncated or damaged.
    """
    for _ in reader.documents():
        pass
