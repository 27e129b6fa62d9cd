# Generated from _async/documents.py by scripts/generate_sync_client.py: do not edit.
"""The calls of `Client` on documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ragstore_client import _calls as calls
from ragstore_client._batches import BatchLimits, Mode, Outcome
from ragstore_client._calls import DocumentFilter
from ragstore_client._sync.base import CallSender
from ragstore_client._sync.ingestion import ingest

if TYPE_CHECKING:
    from ragstore_client import _models as models
    from ragstore_client._models import NewDocument, Where
    from ragstore_client._sync.runtime import DocumentSource


class DocumentCalls(CallSender):
    """Store, read and delete documents."""

    def add_documents(self, collection: str, documents: Iterable[NewDocument]) -> models.WriteResult:
        """Store new documents in one request, all or none.

        The call is not retried once it may have been applied. Where that matters, use `upsert_documents`; for more
        documents than fit in one request, use `ingest`.

        Args:
            collection: name of the collection.
            documents: 1 to 5,461 documents, or the limit that the service is configured with.

        Returns:
            The ids of the stored documents.

        Raises:
            Conflict: a document with the same id exists.
            BadRequest: a document is invalid; `errors` names it.
            NotFound: the collection does not exist.
        """
        return self._send(calls.add_documents(collection, calls.encode_documents(documents)))

    def upsert_documents(self, collection: str, documents: Iterable[NewDocument]) -> models.WriteResult:
        """Store documents in one request, all or none, replacing those whose id exists.

        Args:
            collection: name of the collection.
            documents: 1 to 5,461 documents, or the limit that the service is configured with.

        Returns:
            The ids of the stored documents.

        Raises:
            BadRequest: a document is invalid; `errors` names it.
            NotFound: the collection does not exist.
        """
        return self._send(calls.upsert_documents(collection, calls.encode_documents(documents)))

    def ingest(
        self,
        collection: str,
        documents: DocumentSource,
        *,
        mode: Mode = "upsert",
        concurrency: int = 4,
        limits: BatchLimits | None = None,
    ) -> Iterator[Outcome]:
        """Store any number of documents and report the outcome of each.

        The ingestion advances only while it is iterated. Memory holds `concurrency` + 1 requests. When the service
        rejects a request because of some documents, the request is split and sent again, so that only those documents
        fail. After an error, run it again from the last outcome or from the start: `upsert` stores a stored document
        again with the same result.

        Args:
            collection: name of the collection.
            documents: any iterable of documents. Each needs an id; of several documents
                with the same id the last one wins.
            mode: `upsert`, or `add` where an existing id must fail.
            concurrency: maximum number of requests in flight.
            limits: the limits of a request; `BatchLimits()` when None.

        Yields:
            An outcome for every document that was read, in order.

        Raises:
            RagstoreError: the error that ended the ingestion, after the outcomes of all documents that were read. An
                error of the iterable `documents` itself is raised at the same point.
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
        """List documents in insertion order.

        Args:
            collection: name of the collection.
            where: a filter on metadata.
            where_document: a filter on texts.
            ids: return only these; at most 10,000.
            limit: maximum number of documents, up to 1000; 100 when None.
            offset: number of documents to skip.
            include_embeddings: return the vectors as well.
            total: count all matching documents; false saves that work.

        Returns:
            One page.

        Raises:
            BadRequest: the filter is invalid; the detail names the error and its path.
            NotFound: the collection does not exist.
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
        """Iterate over all matching documents.

        Args:
            collection: name of the collection.
            where: a filter on metadata.
            where_document: a filter on texts.
            ids: return only these; at most 10,000.
            include_embeddings: return the vectors as well.
            page_size: number of documents per request, up to 1000.

        Yields:
            Each document, in insertion order. Writes and deletes during the iteration may shift the pages.
        """
        filter_ = DocumentFilter(
            where=where,
            where_document=where_document,
            ids=ids,
            include_embeddings=include_embeddings,
        )
        offset = 0
        while True:
            call = calls.list_documents(collection, filter_, limit=page_size, offset=offset, total=False)
            page = self._send(call)
            yield from page.documents
            offset += len(page.documents)
            if len(page.documents) < min(page_size, calls.MAX_PAGE_SIZE):
                return

    def get_document(self, collection: str, document_id: str) -> models.Document:
        """Get a document.

        Args:
            collection: name of the collection.
            document_id: id of the document; any Unicode.

        Returns:
            The document.

        Raises:
            NotFound: the document or the collection does not exist.
        """
        return self._send(calls.get_document(collection, document_id))

    def delete_documents(
        self, collection: str, *, ids: Sequence[str] | None = None, where: Where | None = None
    ) -> models.DeleteResult:
        """Delete documents.

        Args:
            collection: name of the collection.
            ids: ids to delete; at most 10,000.
            where: a filter on metadata. With `ids`, only matching documents among them are deleted.

        Returns:
            The number of deleted documents. After a retry it counts only what the last attempt found.

        Raises:
            BadRequest: neither `ids` nor `where` is given, or the filter is invalid.
            NotFound: the collection does not exist.
        """
        return self._send(calls.delete_documents(collection, ids=ids, where=where))

    def empty_collection(self, collection: str) -> models.DeleteAllResult:
        """Delete all documents of a collection and keep the collection.

        Args:
            collection: name of the collection.

        Returns:
            The number of deleted documents.

        Raises:
            NotFound: the collection does not exist.
        """
        return self._send(calls.empty_collection(collection))
