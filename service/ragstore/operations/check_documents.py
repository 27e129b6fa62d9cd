"""Checks the documents of a request before they are written."""

from __future__ import annotations

from ragstore.errors import ChromaError, CollectionNotFound
from ragstore.model.collections import Collection
from ragstore.model.documents import Batch
from ragstore.model.received_documents import ReceivedDocuments
from ragstore.store.protocol import Store


async def checked_batch(store: Store, name: str, received: ReceivedDocuments) -> Batch:
    """The batch to write, if all documents can be stored.

    Only a request with a bad document reads the collection: its dimension decides which documents are the bad ones.

    Args:
        name: the collection's name.
        received: the documents.

    Raises:
        InvalidRequest: some cannot be stored; the error names each of them.
        ServiceError: embeddings differ in dimension, and the collection cannot be read.
    """
    if received.are_consistent:
        return received.batch()
    collection: Collection | None = None
    try:
        collection = await store.get_collection(name)
    except (ChromaError, CollectionNotFound):
        if not received.known_faults:
            raise
    raise received.error(collection)
