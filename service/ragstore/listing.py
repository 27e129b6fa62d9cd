"""A page of documents and the exact number of all that match."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ragstore.schemas import DocumentList, DocumentOut
from ragstore.store.base import Documents, Selection, Store


class Page(msgspec.Struct, frozen=True):
    """Which part of the matches is wanted.

    Attributes:
        limit: most documents.
        offset: matches to pass over.
        with_embeddings: whether documents carry their embeddings.
        with_total: whether all matches are counted.
    """

    limit: int
    offset: int
    with_embeddings: bool
    with_total: bool


async def page_of(store: Store, collection: str, selection: Selection, page: Page) -> DocumentList:
    """Read a page.

    Args:
        store: where the collection is.
        collection: its name.
        selection: which documents match.
        page: which part of them is wanted.

    Returns:
        The page. Its total is counted only where the page does not show it.

    Raises:
        CollectionNotFound: there is no such collection.
    """
    found = await store.get(
        collection, selection, limit=page.limit, offset=page.offset, with_embeddings=page.with_embeddings
    )
    documents = list(documents_out(found))
    total: int | None = None
    if page.with_total:
        shown = len(documents) < page.limit and (documents or page.offset == 0)
        total = page.offset + len(documents) if shown else await store.count(collection, selection)
    return DocumentList(documents, len(documents), total)


def documents_out(found: Documents) -> Iterator[DocumentOut]:
    """Documents by columns, one by one."""
    for place, document_id in enumerate(found.ids):
        document = DocumentOut(document_id, found.texts[place], found.metadatas[place])
        if found.embeddings is not None:
            document = DocumentOut(document.id, document.text, document.metadata, found.embeddings[place])
        yield document
