"""The calls of `AsyncClient` that concern documents."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING

from ragstore_client import _calls as calls
from ragstore_client._async.base import CallSender
from ragstore_client._async.ingest import ingest
from ragstore_client._batches import BatchLimits, Mode, Outcome
from ragstore_client._calls import DocumentFilter

if TYPE_CHECKING:
    from ragstore_client import _models as models
    from ragstore_client._models import NewDocument, Where


class DocumentCalls(CallSender):
    """Store, read and delete documents."""

    async def add_documents(self, collection: str, documents: Iterable[NewDocument]) -> models.WriteResult:
        """Store new documents, all or none, in one request. See `Client.add_documents`."""
        return await self._send(calls.add_documents(collection, calls.encode_documents(documents)))

    async def upsert_documents(self, collection: str, documents: Iterable[NewDocument]) -> models.WriteResult:
        """Store documents, all or none, in one request, over those whose id exists. See `Client.upsert_documents`."""
        return await self._send(calls.upsert_documents(collection, calls.encode_documents(documents)))

    def ingest(
        self,
        collection: str,
        documents: Iterable[NewDocument] | AsyncIterable[NewDocument],
        *,
        mode: Mode = "upsert",
        concurrency: int = 4,
        limits: BatchLimits | None = None,
    ) -> AsyncIterator[Outcome]:
        """Store any number of documents, and tell what became of each. See `Client.ingest`."""
        call = calls.upsert_documents if mode == "upsert" else calls.add_documents
        return ingest(
            lambda body: self._send(call(collection, body)),
            documents,
            limits or BatchLimits(),
            concurrency,
        )

    async def list_documents(
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
        """List documents, in insertion order. See `Client.list_documents`."""
        filter_ = DocumentFilter(
            where=where,
            where_document=where_document,
            ids=ids,
            include_embeddings=include_embeddings,
        )
        return await self._send(calls.list_documents(collection, filter_, limit=limit, offset=offset, total=total))

    async def iter_documents(
        self,
        collection: str,
        *,
        where: Where | None = None,
        where_document: Where | None = None,
        ids: Sequence[str] | None = None,
        include_embeddings: bool = False,
        page_size: int = 500,
    ) -> AsyncIterator[models.Document]:
        """Go through all matching documents. See `Client.iter_documents`."""
        filter_ = DocumentFilter(
            where=where,
            where_document=where_document,
            ids=ids,
            include_embeddings=include_embeddings,
        )
        offset = 0
        while True:
            call = calls.list_documents(collection, filter_, limit=page_size, offset=offset, total=False)
            page = await self._send(call)
            for document in page.documents:
                yield document
            offset += len(page.documents)
            if len(page.documents) < min(page_size, calls.MAX_PAGE_SIZE):
                return

    async def get_document(self, collection: str, document_id: str) -> models.Document:
        """Look at one document. See `Client.get_document`."""
        return await self._send(calls.get_document(collection, document_id))

    async def delete_documents(
        self, collection: str, *, ids: Sequence[str] | None = None, where: Where | None = None
    ) -> models.DeleteResult:
        """Delete documents. See `Client.delete_documents`."""
        return await self._send(calls.delete_documents(collection, ids=ids, where=where))

    async def empty_collection(self, collection: str) -> models.DeleteAllResult:
        """Delete all documents of a collection, and keep the collection. See `Client.empty_collection`."""
        return await self._send(calls.empty_collection(collection))
