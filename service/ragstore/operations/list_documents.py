"""Listing of documents: a page, and the exact number of all matches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from ragstore.model.documents import Document, DocumentPage, Documents, Selection
from ragstore.store.protocol import Store


class Page(msgspec.Struct, frozen=True):
    """The page to list.

    Attributes:
        limit: maximum number of documents.
        offset: number of matches to skip.
        with_embeddings: whether documents have their embeddings.
        with_total: whether to count all matches.
        with_texts: whether documents have their texts.
    """

    limit: int
    offset: int
    with_embeddings: bool
    with_total: bool
    with_texts: bool = True


async def list_page(store: Store, collection: str, selection: Selection, page: Page) -> DocumentPage:
    """List a page of the selected documents.

    Returns:
        The page. Its total costs a call to Chroma only if it does not follow from the page itself.

    Raises:
        CollectionNotFound: the collection does not exist.
    """
    if not page.with_total:
        return _to_page(await _read(store, collection, selection, page), None, page)
    if page.offset and not selection.is_everything:
        return await _page_via_ids(store, collection, selection, page)
    if page.offset:
        documents, total = await asyncio.gather(_read(store, collection, selection, page), store.count(collection))
        return _to_page(documents, total, page)
    documents = await _read(store, collection, selection, page)
    is_full = len(documents.ids) == page.limit
    total = await store.count(collection, selection) if is_full else len(documents.ids)
    return _to_page(documents, total, page)


async def _page_via_ids(store: Store, collection: str, selection: Selection, page: Page) -> DocumentPage:
    """A page beyond the first. The ids of all matches give the total and the page, so the filter runs only once."""
    ids = await store.get_ids(collection, selection)
    ids_of_page = tuple(ids[page.offset : page.offset + page.limit])
    if not ids_of_page:
        return DocumentPage([], 0, len(ids))
    documents = await store.get(collection, Selection(ids=ids_of_page), with_embeddings=page.with_embeddings)
    return _to_page(documents, len(ids), page)


async def _read(store: Store, collection: str, selection: Selection, page: Page) -> Documents:
    return await store.get(
        collection, selection, limit=page.limit, offset=page.offset, with_embeddings=page.with_embeddings
    )


def _to_page(columns: Documents, total: int | None, page: Page) -> DocumentPage:
    documents = list(to_documents(columns, with_texts=page.with_texts))
    return DocumentPage(documents, len(documents), total)


def to_documents(columns: Documents, *, with_texts: bool = True) -> Iterator[Document]:
    """The documents of columns, one by one."""
    for index, document_id in enumerate(columns.ids):
        text = columns.texts[index] if with_texts else ""
        document = Document(document_id, text, columns.metadatas[index])
        if columns.embeddings is not None:
            document = Document(document.id, document.text, document.metadata, columns.embeddings[index])
        yield document
