"""The calls of `Client` that concern documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ragstore_client import _calls as calls
from ragstore_client._batches import BatchLimits, Mode, Outcome
from ragstore_client._calls import DocumentFilter
from ragstore_client._sync.base import CallSender
from ragstore_client._sync.ingest import ingest

if TYPE_CHECKING:
    from ragstore_client import _models as models
    from ragstore_client._models import NewDocument, Where


class DocumentCalls(CallSender):
    """Store, read and delete documents."""

    def add_documents(self, collection: str, documents: Iterable[NewDocument]) -> models.WriteResult:
        """Store new documents, all or none, in one request.

        It is not tried again once it may have reached the service: use `upsert_documents` where that matters, and
        `ingest` for more than fits into a request.

        Args:
            collection: where.
            documents: 1 to 5,461, or what the service is set to.

        Returns:
            What was stored.

        Raises:
            Conflict: an id exists already.
            BadRequest: a document is wrong; `errors` says which.
            NotFound: there is no such collection.
        """
        return self._send(calls.add_documents(collection, calls.encode_documents(documents)))

    def upsert_documents(self, collection: str, documents: Iterable[NewDocument]) -> models.WriteResult:
        """Store documents, all or none, in one request; those whose id exists are replaced.

        Args:
            collection: where.
            documents: 1 to 5,461, or what the service is set to.

        Returns:
            What was stored.

        Raises:
            BadRequest: a document is wrong; `errors` says which.
            NotFound: there is no such collection.
        """
        return self._send(calls.upsert_documents(collection, calls.encode_documents(documents)))

    def ingest(
        self,
        collection: str,
        documents: Iterable[NewDocument],
        *,
        mode: Mode = "upsert",
        concurrency: int = 4,
        limits: BatchLimits | None = None,
    ) -> Iterator[Outcome]:
        """Store any number of documents, and tell what became of each.

        It runs as far as it is iterated. Memory holds `concurrency` + 1 requests. A request that is refused for the
        sake of some documents is sent again in parts, so that only those fail. After an error run it again, from the
        last outcome or from the start: with `upsert` what is stored already is stored again, to the same end.

        Args:
            collection: where.
            documents: any iterable; each needs an id. The last of several with one id wins.
            mode: `upsert`, or `add` where an id that exists must fail.
            concurrency: most requests at once.
            limits: how large a request may be.

        Yields:
            An outcome for every document that was read, in their order.

        Raises:
            RagstoreError: what ended the ingestion, after the outcomes of all that was read; an error of `documents`
                itself likewise.
        """
        call = calls.upsert_documents if mode == "upsert" else calls.add_documents
        return ingest(
            lambda body: self._send(call(collection, body)),
            documents,
            limits or BatchLimits(),
            concurrency,
        )

    def list_documents(
        self,
        collection: str,
        *,
        where: Where | None = None,
        where_document: Where | None = None,
        ids: Sequence[str] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        include_embeddings: bool = False,
        total: bool = True,
    ) -> models.DocumentPage:
        """List documents, in insertion order.

        Args:
            collection: where.
            where: a filter on metadata.
            where_document: a filter on texts.
            ids: only these; at most 10,000.
            limit: most to return, up to 1000; 100 when None.
            offset: how many to pass over.
            include_embeddings: return the vectors too.
            total: count all matches; false spares the work.

        Returns:
            One page.

        Raises:
            BadRequest: the filter is wrong; the detail says what and where.
            NotFound: there is no such collection.
        """
        filter_ = DocumentFilter(
            where=where,
            where_document=where_document,
            ids=ids,
            include_embeddings=include_embeddings,
        )
        return self._send(calls.list_documents(collection, filter_, limit=limit, offset=offset, total=total))

    def iter_documents(
        self,
        collection: str,
        *,
        where: Where | None = None,
        where_document: Where | None = None,
        ids: Sequence[str] | None = None,
        include_embeddings: bool = False,
        page_size: int = 500,
    ) -> Iterator[models.Document]:
        """Go through all matching documents.

        Args:
            collection: where.
            where: a filter on metadata.
            where_document: a filter on texts.
            ids: only these; at most 10,000.
            include_embeddings: return the vectors too.
            page_size: how many to fetch at a time, up to 1000.

        Yields:
            Each document, in insertion order. Writes and deletes meanwhile may shift the pages.
        """
        filter_ = DocumentFilter(
            where=where,
            where_document=where_document,
            ids=ids,
            include_embeddings=include_embeddings,
        )
        offset = 0
        while True:
            page = self._send(calls.list_documents(collection, filter_, limit=page_size, offset=offset, total=False))
            yield from page.documents
            offset += len(page.documents)
            if len(page.documents) < min(page_size, calls.MAX_PAGE_SIZE):
                return

    def get_document(self, collection: str, document_id: str) -> models.Document:
        """Look at one document.

        Args:
            collection: where.
            document_id: which; any Unicode.

        Returns:
            The document.

        Raises:
            NotFound: there is no such document or collection.
        """
        return self._send(calls.get_document(collection, document_id))

    def delete_documents(
        self, collection: str, *, ids: Sequence[str] | None = None, where: Where | None = None
    ) -> models.DeleteResult:
        """Delete documents.

        Args:
            collection: where.
            ids: these; at most 10,000.
            where: those that match. With `ids` too, those of them that match.

        Returns:
            How many were deleted. After a retry it counts only what the last try found.

        Raises:
            BadRequest: neither is given, or the filter is wrong.
            NotFound: there is no such collection.
        """
        return self._send(calls.delete_documents(collection, ids=ids, where=where))

    def empty_collection(self, collection: str) -> models.DeleteAllResult:
        """Delete all documents of a collection, and keep the collection.

        Args:
            collection: which.

        Returns:
            How many there were.

        Raises:
            NotFound: there is no such collection.
        """
        return self._send(calls.empty_collection(collection))
