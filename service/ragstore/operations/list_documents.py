"""Listing of documents: a page, and the exact number of all matches."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Final

import msgspec

from ragstore.errors import InvalidCursor, TooManyMatches
from ragstore.model.documents import Document, DocumentPage, Documents, Selection
from ragstore.store.listing_cache import MAX_IDS
from ragstore.store.protocol import Store

MAX_SHIFT: Final = 1000
"""How far before its position the document of a cursor is looked for, because documents before it were deleted. Then
all ids are read."""


MAX_MATCHES: Final = MAX_IDS
"""Maximum number of matches of a filter whose later pages by offset have a total. More ids are not remembered, and each
page would read all of them: 500,000 of 1,000,000 documents in 4.5 s (Chroma 1.5.9)."""


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The end of a page.

    Attributes:
        position: number of matches up to there, when the page was read.
        last_id: id of its last document.
        total: number of all matches, if it was counted.
    """

    position: int
    last_id: str
    total: int | None

    def encode(self) -> str:
        """The cursor as an opaque text."""
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(self)).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Cursor:
        """The cursor of a text.

        Raises:
            InvalidCursor: it is no cursor of this service.
        """
        try:
            cursor = msgspec.msgpack.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=cls)
        except (ValueError, msgspec.MsgspecError):
            raise InvalidCursor from None
        if cursor.position < 1 or not cursor.last_id:
            raise InvalidCursor
        return cursor


class Page(msgspec.Struct, frozen=True):
    """The page to list.

    Attributes:
        limit: maximum number of documents.
        offset: number of matches to skip.
        with_embeddings: whether documents have their embeddings.
        with_total: whether to count all matches.
        with_texts: whether documents have their texts.
        after: the end of the previous page, if the page is to follow it; `offset` is then 0.
    """

    limit: int
    offset: int
    with_embeddings: bool
    with_total: bool
    with_texts: bool = True
    after: Cursor | None = None


async def list_page(store: Store, collection: str, selection: Selection, page: Page) -> DocumentPage:
    """List a page of the selected documents.

    Returns:
        The page. Its total costs a call to Chroma only if it does not follow from the page itself.

    Raises:
        CollectionNotFound: the collection does not exist.
        InvalidCursor: the document of the cursor is gone.
        TooManyMatches: the page has an offset, and too many documents match its filter for a total.
    """
    if page.after is not None:
        return await _page_after(store, collection, selection, page, page.after)
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
    """A page beyond the first. The ids from its offset on give the page and the total, so the filter runs only once.

    Raises:
        TooManyMatches: there are more than `MAX_MATCHES`.
    """
    first = min(page.offset, MAX_MATCHES)
    ids = await store.get_ids(collection, selection, limit=MAX_MATCHES + 1 - first, offset=first)
    if first + len(ids) > MAX_MATCHES:
        raise TooManyMatches(MAX_MATCHES)
    if not ids:
        # At most `first` documents match, and the store remembers their ids.
        return DocumentPage([], 0, len(await store.get_ids(collection, selection)))
    ids_of_page = tuple(ids[: page.limit])
    documents = await store.get(collection, Selection(ids=ids_of_page), with_embeddings=page.with_embeddings)
    return _to_page(documents, first + len(ids), page, last_id=ids_of_page[-1])


async def _page_after(store: Store, collection: str, selection: Selection, page: Page, cursor: Cursor) -> DocumentPage:
    """The page that follows a cursor, with the total of the previous page.

    The store remembers ids, and by ids a page takes as long at the end of a collection as at its beginning.
    """
    total = cursor.total if page.with_total else None
    for shift in (0, MAX_SHIFT):
        first = max(0, cursor.position - 1 - shift)
        expected = cursor.position - first
        # One more than the page shows whether another page follows.
        ids = await store.get_ids(collection, selection, limit=expected + page.limit + 1, offset=first)
        begin = _index_after(ids, cursor.last_id, expected)
        if begin is None or begin > expected:
            continue
        ids_of_page = ids[begin : begin + page.limit]
        documents = await _read_ids(store, collection, ids_of_page, page)
        if len(documents.ids) == len(ids_of_page):
            is_last = begin + page.limit >= len(ids)
            return _to_page(documents, total, page, first + begin, is_last=is_last)
    ids = await store.get_ids(collection, selection)
    start = _index_after(ids, cursor.last_id, cursor.position)
    if start is None:
        raise InvalidCursor
    documents = await _read_ids(store, collection, ids[start : start + page.limit], page)
    is_last = start + page.limit >= len(ids)
    return _to_page(documents, total, page, start, is_last=is_last, last_id=ids[min(start + page.limit, len(ids)) - 1])


def _index_after(ids: list[str], last_id: str, expected: int) -> int | None:
    """The index of the document that follows another one; None if that one is not among the ids."""
    if ids[expected - 1 : expected] == [last_id]:
        return expected
    try:
        return ids.index(last_id) + 1
    except ValueError:
        return None


async def _read_ids(store: Store, collection: str, ids: list[str], page: Page) -> Documents:
    """Read documents of a list of ids.

    Without the filter that selected them: Chroma takes 500 ms for 100 ids with a filter that 5,000 documents match, and
    10 ms without it.
    """
    if not ids:
        return Documents([], [], [], None)
    return await store.get(collection, Selection(ids=tuple(ids)), with_embeddings=page.with_embeddings)


async def _read(store: Store, collection: str, selection: Selection, page: Page) -> Documents:
    return await store.get(
        collection, selection, limit=page.limit, offset=page.offset, with_embeddings=page.with_embeddings
    )


def _to_page(
    columns: Documents,
    total: int | None,
    page: Page,
    start: int | None = None,
    *,
    is_last: bool | None = None,
    last_id: str = "",
) -> DocumentPage:
    """A page of documents.

    Args:
        columns: the documents.
        total: the number of all matches, if it was counted.
        page: the page that was requested.
        start: number of matches before it; its offset by default.
        is_last: whether no page follows; by default, whether this one is not full.
        last_id: id at which the next page begins; the last document's id by default.
    """
    documents = list(to_documents(columns, with_texts=page.with_texts))
    start = page.offset if start is None else start
    if is_last is None:
        is_last = len(documents) < page.limit or (total is not None and start + len(documents) >= total)
    if is_last:
        return DocumentPage(documents, len(documents), total)
    cursor = Cursor(start + page.limit, last_id or columns.ids[-1], total)
    return DocumentPage(documents, len(documents), total, cursor.encode())


def to_documents(columns: Documents, *, with_texts: bool = True) -> Iterator[Document]:
    """The documents of columns, one by one."""
    for index, document_id in enumerate(columns.ids):
        text = columns.texts[index] if with_texts else ""
        document = Document(document_id, text, columns.metadatas[index])
        if columns.embeddings is not None:
            document = Document(document.id, document.text, document.metadata, columns.embeddings[index])
        yield document
