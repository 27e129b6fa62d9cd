"""Copies a collection from one service to another, without a file."""

from __future__ import annotations

from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.importing import Importer, ImportResult, batches
from ragstore.transfer.progress import TransferProgress
from ragstore.transfer.reading import pages
from ragstore.transfer.service import Service


async def copy_collection(
    source: Service, collection: CountedCollection, importer: Importer, size: int, progress: TransferProgress
) -> ImportResult:
    """Copy a collection.

    Args:
        source: the service to read.
        collection: the collection as it is there.
        importer: what writes the documents.
        size: maximum number of documents in a page and in a batch.
        progress: shows how many documents are done.

    Returns:
        The result.

    Raises:
        CollectionChanged: documents were deleted at the source meanwhile.
        NotVerified: a stored document differs from what was sent.
    """
    await importer.begin()
    progress.begin(collection.count)
    async for page in pages(source, collection, size):
        for batch in batches(page, size):
            await importer.write(batch)
            progress.advance(len(batch))
    await importer.finish()
    return importer.result
