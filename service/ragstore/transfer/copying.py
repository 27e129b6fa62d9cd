"""A collection from one service to another, without a file between them."""

from __future__ import annotations

from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.importing import Imported, Importer, batches
from ragstore.transfer.progress import TransferProgress
from ragstore.transfer.reading import pages
from ragstore.transfer.remote import Service


async def copy_collection(
    source: Service, collection: CountedCollection, importer: Importer, size: int, progress: TransferProgress
) -> Imported:
    """Copy a collection.

    Args:
        source: where it is.
        collection: the collection as it is there.
        importer: where it goes.
        size: most documents in a page and in a batch.
        progress: is told how far this is.

    Returns:
        What it came to.

    Raises:
        CollectionChanged: documents were deleted at the source meanwhile.
        NotVerified: what is stored is not what was sent.
    """
    await importer.begin()
    progress.begin(collection.count)
    async for page in pages(source, collection, size):
        for batch in batches(page, size):
            await importer.write(batch)
            progress.advance(len(batch))
    await importer.finish()
    return importer.outcome
