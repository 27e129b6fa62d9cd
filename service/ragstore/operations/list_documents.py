"""A page of documents and the exact number of all that match."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from ragstore.model.documents import Document, DocumentPage, Documents, Selection
from ragstore.store.protocol import Store


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


async def list_page(store: Store, collection: str, selection: Selection, page: Page) -> DocumentPage:
    """Read a page, and the number of all matches where it is wanted.

    Args:
        store: where the collection is.
        collection: its name.
        selection: which documents match.
        page: which part of them is wanted.

    Returns:
        The page. Chroma is asked for the total only where the page does not show it.

    Raises:
        CollectionNotFound: there is no such collection.
    """
    if not page.with_total:
        return _list(await _read(store, collection, selection, page), None)
    if page.offset and not selection.is_everything:
        return await _cut_from_ids(store, collection, selection, page)
    if page.offset:
        found, total = await asyncio.gather(_read(store, collection, selection, page), store.count(collection))
        return _list(found, total)
    found = await _read(store, collection, selection, page)
    full = len(found.ids) == page.limit
    return _list(found, await store.count(collection, selection) if full else len(found.ids))


async def _cut_from_ids(store: Store, collection: str, selection: Selection, page: Page) -> DocumentPage:
    """A page beyond the first: the ids of all matches tell the total and the page, so the filter works only once."""
    ids = await store.get_ids(collection, selection)
    wanted = tuple(ids[page.offset : page.offset + page.limit])
    if not wanted:
        return DocumentPage([], 0, len(ids))
    found = await store.get(collection, Selection(ids=wanted), with_embeddings=page.with_embeddings)
    return _list(found, len(ids))


async def _read(store: Store, collection: str, selection: Selection, page: Page) -> Documents:
    return await store.get(
        collection, selection, limit=page.limit, offset=page.offset, with_embeddings=page.with_embeddings
    )


def _list(found: Documents, total: int | None) -> DocumentPage:
    documents = list(to_documents(found))
    return DocumentPage(documents, len(documents), total)


def to_documents(found: Documents) -> Iterator[Document]:
    """Documents by columns, one by one."""
    for place, document_id in enumerate(found.ids):
        document = Document(document_id, found.texts[place], found.metadatas[place])
        if found.embeddings is not None:
            document = Document(document.id, document.text, document.metadata, found.embeddings[place])
        yield document
