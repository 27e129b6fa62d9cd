"""Reads a collection page by page, and detects pages that do not fit together."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ragstore.transfer.counted import CountedCollection
from ragstore.transfer.documents import Document
from ragstore.transfer.failures import CollectionChanged
from ragstore.transfer.service import Service


async def pages(
    service: Service, collection: CountedCollection, size: int, skip: int = 0, last_id: str = ""
) -> AsyncIterator[list[Document]]:
    """The documents that a collection held at the start, in insertion order.

    Documents that are added meanwhile come after them and are left out. When one is deleted, the documents after it
    move up and one could be missed: each page therefore begins with the last document of the page before it.

    Args:
        service: the service that has the collection.
        collection: the collection as it was at the start.
        size: documents per page, fewer than 1000.
        skip: number of documents to skip.
        last_id: id of the last skipped document.

    Yields:
        Pages of one or more documents.

    Raises:
        CollectionChanged: documents were deleted meanwhile.
    """
    done = skip
    while done < collection.count:
        overlap = min(done, 1)
        expected = min(size, collection.count - done)
        found = await service.page(collection.name, done - overlap, expected + overlap)
        if len(found) < expected + overlap or (overlap and found[0].id != last_id):
            raise CollectionChanged(f"Documents of '{collection.name}' were deleted while it was read: run this again")
        documents = found[overlap:]
        done += len(documents)
        last_id = documents[-1].id
        yield documents
