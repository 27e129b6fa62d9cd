"""The calls of `AsyncClient` on documents."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import NamedTuple, Unpack

from ragstore_client import _calls as calls
from ragstore_client import _models as models
from ragstore_client._async.base import CallSender
from ragstore_client._calls import MAX_PAGE_SIZE, DocumentFilter
from ragstore_client._exceptions import BadRequest
from ragstore_client._json import to_strings
from ragstore_client._models import Metadata, NewDocumentLike, Strings, Where
from ragstore_client._options import CallOptions

DEFAULT_PAGE_SIZE = 100
INVALID_CURSOR = "invalid_cursor"


class _Rest(NamedTuple):
    """The documents of a list that are still to be read.

    Attributes:
        offset: number of documents before them; None if only a cursor says where they begin.
        after: the cursor of the page before them.
        limit: their maximum number.
        total: whether to return the total of the page before them. A cursor holds it, so it costs nothing.
    """

    offset: int | None = 0
    after: str | None = None
    limit: int = sys.maxsize
    total: bool = False


class DocumentCalls(CallSender):
    """Store, read and delete documents."""

    async def add_documents(
        self, collection: str, documents: Iterable[NewDocumentLike], **options: Unpack[CallOptions]
    ) -> models.WriteResult:
        """Store new documents in one request, all or none.

        The call is not retried once it may have been applied. Where that matters, use `upsert_documents`; for more
        documents than fit in one request, use `ingest`.

        Args:
            collection: name of the collection.
            documents: 1 to 5,461 documents, or the limit that the service is configured with.
            **options: see `CallOptions`.

        Returns:
            The ids of the stored documents.

        Raises:
            Conflict: a document with the same id exists.
            BadRequest: a document is invalid; `errors` names it.
            NotFound: the collection does not exist.
        """
        return await self._send(calls.add_documents(collection, calls.encode_documents(documents)), options)

    async def upsert_documents(
        self, collection: str, documents: Iterable[NewDocumentLike], **options: Unpack[CallOptions]
    ) -> models.WriteResult:
        """Store documents in one request, all or none. A document replaces the stored document with its id.

        Args:
            collection: name of the collection.
            documents: 1 to 5,461 documents, or the limit that the service is configured with.
            **options: see `CallOptions`.

        Returns:
            The ids of the stored documents.

        Raises:
            BadRequest: a document is invalid; `errors` names it.
            NotFound: the collection does not exist.
        """
        return await self._send(calls.upsert_documents(collection, calls.encode_documents(documents)), options)

    async def update_documents(
        self, collection: str, updates: Mapping[str, Metadata], *, replace: bool = False, **options: Unpack[CallOptions]
    ) -> models.DocumentsUpdated:
        """Change the metadata of documents in one request, all or none. Texts and vectors stay as they are.

        Args:
            collection: name of the collection.
            updates: the metadata of each document, by id; at most 5,461 documents, or the limit that the service is
                configured with. Keys that are not named stay, and None removes a key (RFC 7396).
            replace: the metadata are all that each document has afterwards: keys that are not named are removed.
            **options: see `CallOptions`.

        Returns:
            The number of documents.

        Raises:
            BadRequest: a value cannot be stored; `errors` names it.
            NotFound: the collection, or one of the documents, does not exist. Nothing was changed.
        """
        return await self._send(calls.update_documents(collection, updates, replace=replace), options)

    async def list_documents(
        self,
        collection: str,
        *,
        where: Where | None = None,
        where_document: Where | None = None,
        ids: Strings | None = None,
        limit: int | None = None,
        offset: int | None = None,
        include_embeddings: bool = False,
        include_texts: bool = True,
        total: bool = True,
        after: str | None = None,
        **options: Unpack[CallOptions],
    ) -> models.DocumentPage:
        """List documents in insertion order.

        Args:
            collection: name of the collection.
            where: a filter on metadata.
            where_document: a filter on texts.
            ids: return only these; at most 10,000.
            limit: maximum number of documents; when None, all of `ids`, or else 100. A number above 1000 takes several
                requests; see `iter_documents` for writes between them.
            offset: number of documents to skip.
            include_embeddings: return the vectors as well.
            include_texts: return the texts; they are empty otherwise.
            total: count all matching documents; false saves that work.
            after: `next` of the previous page, to list the page that follows; without `offset`.
            **options: see `CallOptions`.

        Returns:
            The documents, as one page.

        Raises:
            BadRequest: the filter is invalid; the detail names the error and its path.
            NotFound: the collection does not exist.
        """
        given = None if ids is None else to_strings(ids, "ids")
        filter_ = DocumentFilter(where, where_document, include_embeddings, include_texts, given)
        if limit is None and filter_.ids is not None and len(filter_.ids) > DEFAULT_PAGE_SIZE:
            limit = len(filter_.ids)
        size = None if limit is None else min(limit, MAX_PAGE_SIZE)
        call = calls.list_documents(collection, filter_, limit=size, offset=offset, total=total, after=after)
        page = await self._send(call, options)
        if limit is None or limit <= MAX_PAGE_SIZE:
            return page
        documents, next_ = page.documents, page.next
        if next_ is not None or (after is None and len(documents) == MAX_PAGE_SIZE):
            start = None if after is not None else (offset or 0) + len(documents)
            rest = _Rest(start, next_, limit - len(documents), total)
            async for later in self._pages(collection, filter_, MAX_PAGE_SIZE, rest, options):
                documents += later.documents
                next_ = later.next
        return models.DocumentPage(documents, len(documents), page.total, next_)

    async def iter_documents(
        self,
        collection: str,
        *,
        where: Where | None = None,
        where_document: Where | None = None,
        ids: Strings | None = None,
        include_embeddings: bool = False,
        include_texts: bool = True,
        page_size: int = 500,
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[models.Document]:
        """Iterate over all matching documents.

        Args:
            collection: name of the collection.
            where: a filter on metadata.
            where_document: a filter on texts.
            ids: return only these; at most 10,000.
            include_embeddings: return the vectors as well.
            include_texts: return the texts; they are empty otherwise.
            page_size: number of documents per request, up to 1000.
            **options: see `CallOptions`; they apply to each request.

        Yields:
            Each document, in insertion order. Writes and deletions during the iteration shift no page, unless the last
            document of a page is deleted before the next page is requested.
        """
        given = None if ids is None else to_strings(ids, "ids")
        filter_ = DocumentFilter(where, where_document, include_embeddings, include_texts, given)
        async for page in self._pages(collection, filter_, min(page_size, MAX_PAGE_SIZE), _Rest(), options):
            for document in page.documents:
                yield document

    async def _pages(
        self, collection: str, filter_: DocumentFilter, size: int, rest: _Rest, options: CallOptions
    ) -> AsyncIterator[models.DocumentPage]:
        """Iterate over pages by their cursors, and by offset where there is none or its document was deleted."""
        offset, after, limit, total = rest
        while limit > 0:
            wanted = min(size, limit)
            start, is_counted = (offset, False) if after is None else (None, total)
            call = calls.list_documents(collection, filter_, limit=wanted, offset=start, total=is_counted, after=after)
            try:
                page = await self._send(call, options)
            except BadRequest as error:
                if after is None or offset is None or error.code != INVALID_CURSOR:
                    raise
                after = None
                continue
            yield page
            count = len(page.documents)
            offset, after, limit = None if offset is None else offset + count, page.next, limit - count
            # A page that has a cursor may be short: its other documents were deleted while it was read.
            if after is None and (offset is None or count < wanted):
                return

    async def count(
        self,
        collection: str,
        where: Where | None = None,
        *,
        where_document: Where | None = None,
        ids: Strings | None = None,
        **options: Unpack[CallOptions],
    ) -> int:
        """Count the matching documents, exactly.

        Args:
            collection: name of the collection.
            where: a filter on metadata; all documents when None.
            where_document: a filter on texts.
            ids: count only these; at most 10,000.
            **options: see `CallOptions`.

        Returns:
            Their number.

        Raises:
            BadRequest: the filter is invalid.
            NotFound: the collection does not exist.
        """
        page = await self.list_documents(
            collection, where=where, where_document=where_document, ids=ids, limit=1, include_texts=False, **options
        )
        return page.total or 0

    async def get_document(
        self, collection: str, document_id: str, *, include_embeddings: bool = False, **options: Unpack[CallOptions]
    ) -> models.Document:
        """Get a document.

        Args:
            collection: name of the collection.
            document_id: id of the document; any Unicode.
            include_embeddings: return the vector as well.
            **options: see `CallOptions`.

        Returns:
            The document.

        Raises:
            NotFound: the document or the collection does not exist.
        """
        call = calls.get_document(collection, document_id, include_embeddings=include_embeddings)
        return await self._send(call, options)

    async def get_documents(
        self,
        collection: str,
        ids: Strings,
        *,
        include_embeddings: bool = False,
        include_texts: bool = True,
        **options: Unpack[CallOptions],
    ) -> list[models.Document]:
        """Get documents by id, any number of them.

        Args:
            collection: name of the collection.
            ids: the ids; at most 1000 of them are sent in one request.
            include_embeddings: return the vectors as well.
            include_texts: return the texts; they are empty otherwise.
            **options: see `CallOptions`.

        Returns:
            The documents that exist, in the order of `ids`.

        Raises:
            NotFound: the collection does not exist.
        """
        names = list(dict.fromkeys(to_strings(ids, "ids")))
        found: dict[str, models.Document] = {}
        for start in range(0, len(names), MAX_PAGE_SIZE):
            some = names[start : start + MAX_PAGE_SIZE]
            filter_ = DocumentFilter(ids=some, include_embeddings=include_embeddings, include_texts=include_texts)
            call = calls.list_documents(collection, filter_, limit=MAX_PAGE_SIZE, offset=None, total=False)
            page = await self._send(call, options)
            found.update((document.id, document) for document in page.documents)
        return [found[name] for name in names if name in found]

    async def document_exists(self, collection: str, document_id: str, **options: Unpack[CallOptions]) -> bool:
        """Check whether a document exists.

        Raises:
            NotFound: the collection does not exist.
        """
        filter_ = DocumentFilter(ids=[document_id], include_texts=False)
        call = calls.list_documents(collection, filter_, limit=1, offset=None, total=False)
        return bool((await self._send(call, options)).documents)

    async def delete_documents(
        self,
        collection: str,
        *,
        ids: Strings | None = None,
        where: Where | None = None,
        **options: Unpack[CallOptions],
    ) -> models.DeleteResult:
        """Delete documents.

        Args:
            collection: name of the collection.
            ids: ids to delete; at most 10,000.
            where: a filter on metadata. With `ids`, only matching documents among them are deleted.
            **options: see `CallOptions`.

        Returns:
            The number of deleted documents. After a retry it counts only what the last attempt found.

        Raises:
            BadRequest: neither `ids` nor `where` is given, or the filter is invalid.
            NotFound: the collection does not exist.
        """
        return await self._send(calls.delete_documents(collection, ids=ids, where=where), options)

    async def empty_collection(self, collection: str, **options: Unpack[CallOptions]) -> models.DeleteAllResult:
        """Delete all documents of a collection and keep the collection.

        Args:
            collection: name of the collection.
            **options: see `CallOptions`.

        Returns:
            The number of deleted documents.

        Raises:
            NotFound: the collection does not exist.
        """
        return await self._send(calls.empty_collection(collection), options)
