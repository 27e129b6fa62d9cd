"""Reads a collection from a service, page by page, and notices when the pages do not fit together."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.documents import Document
from ragstore.transfer.failures import CollectionChanged
from ragstore.transfer.remote import Service


async def pages(
    service: Service, collection: CountedCollection, size: int, passed: int = 0, last_id: str = ""
) -> AsyncIterator[list[Document]]:
    """The documents that a collection held, in insertion order.

    Documents that are added meanwhile come after them, and are left out. Where one is deleted, those behind it move up,
    and one would be missed: each page begins with the last document of the page before it, so that this shows.

    Args:
        service: where the collection is.
        collection: the collection as it was at the beginning.
        size: documents in a page, fewer than 1000.
        passed: documents to pass over.
        last_id: the last one of them.

    Yields:
        Pages of one document or more.

    Raises:
        CollectionChanged: documents were deleted meanwhile.
    """
    while passed < collection.count:
        overlap = min(passed, 1)
        wanted = min(size, collection.count - passed)
        found, _ = await service.page(collection.name, passed - overlap, wanted + overlap)
        if len(found) < wanted + overlap or (overlap and found[0].id != last_id):
            raise CollectionChanged(f"Documents of '{collection.name}' were deleted while it was read: run this again")
        documents = found[overlap:]
        passed += len(documents)
        last_id = documents[-1].id
        yield documents
