"""The calls of `AsyncGatewayClient` that ingest documents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Unpack

from ragstore_client._async.base import CallSender
from ragstore_client._options import CallOptions
from ragstore_client._types import Metadata
from ragstore_client.gateway._async.ingestion import AsyncDocumentIngestion
from ragstore_client.gateway._calls import BaseLike, id_of
from ragstore_client.gateway._contents import FileDocument, NewContent, PageDocument, TextDocument, folder_documents
from ragstore_client.gateway._reports import DocumentIngestOptions, DocumentProgress, DocumentsReport, IngestedDocument

RETRY_SECONDS = 60.0
BUSY_SECONDS = 1800.0


class IngestCalls(CallSender):
    """Ingest texts, files, folders and pages, and wait until searches find them."""

    def ingest(
        self,
        base: BaseLike,
        documents: Iterable[NewContent],
        *,
        concurrency: int = 4,
        progress: Callable[[DocumentProgress], None] | None = None,
        retry_seconds: float = RETRY_SECONDS,
        busy_seconds: float = BUSY_SECONDS,
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[IngestedDocument]:
        """Ingest any number of documents, and yield the outcome of each, in order.

        A document that fails does not end the others. The ingestion advances only while it is iterated. Small documents
        are sent together. A document of the same name is replaced; one with the same content is not embedded again, so
        that the same call continues an interrupted one. The gateway ingests what it has accepted, also if this process
        ends.

        Args:
            base: the knowledge base.
            documents: `TextDocument`, `FileDocument`, `PageDocument`, or objects with the members of `Content`.
            concurrency: maximum number of requests whose documents are in flight.
            progress: is called with each step, from any thread that ingests.
            retry_seconds: how long a request is retried while the gateway is away. It has no effect when the client's
                retries are off, or when `retries` is given.
            busy_seconds: how long documents wait for room in the gateway's queue.
            **options: see `CallOptions`.

        Yields:
            The outcome of each document, when it and all documents before it have ended.
        """
        ingestion = AsyncDocumentIngestion(
            self._lasting(retry_seconds, options),
            id_of(base),
            concurrency=concurrency,
            busy_seconds=busy_seconds,
            progress=progress,
        )
        return ingestion.run(documents)

    async def ingest_all(
        self, base: BaseLike, documents: Iterable[NewContent], **options: Unpack[DocumentIngestOptions]
    ) -> DocumentsReport:
        """Ingest documents, all of them.

        Args:
            base: the knowledge base.
            documents: as for `ingest`.
            **options: as for `ingest`.

        Returns:
            The outcomes. `raise_for_failures()` raises if a document failed.
        """
        return DocumentsReport([outcome async for outcome in self.ingest(base, documents, **options)])

    async def ingest_folder(
        self,
        base: BaseLike,
        folder: str | Path,
        *,
        recursive: bool = True,
        progress: Callable[[DocumentProgress], None] | None = None,
        **options: Unpack[CallOptions],
    ) -> DocumentsReport:
        """Ingest the documents of a folder. Each is named by its path in the folder.

        Args:
            base: the knowledge base.
            folder: the folder; see `folder_documents`.
            recursive: whether to descend into the folders of the folder.
            progress: as for `ingest`.
            **options: see `CallOptions`.

        Returns:
            The outcomes. `raise_for_failures()` raises if a document failed.

        Raises:
            OSError: a folder cannot be read.
        """
        return await self.ingest_all(base, folder_documents(folder, recursive=recursive), progress=progress, **options)

    async def ingest_file(
        self,
        base: BaseLike,
        path: str | Path,
        *,
        name: str = "",
        media_type: str = "",
        metadata: Metadata | None = None,
        **options: Unpack[CallOptions],
    ) -> IngestedDocument:
        """Ingest a file.

        Args:
            base: the knowledge base.
            path: the file.
            name: name of the document; the name of the file by default.
            media_type: media type; by default it follows from the extension of the name.
            metadata: metadata of its chunks beside the gateway's keys.
            **options: see `CallOptions`.

        Returns:
            The document, which searches find.

        Raises:
            DocumentFailed: it was not ingested.
        """
        document = FileDocument(path, name, media_type=media_type, metadata=metadata)
        return await self._ingest_one(base, document, options)

    async def ingest_text(
        self,
        base: BaseLike,
        name: str,
        text: str,
        *,
        media_type: str = "text/plain",
        metadata: Metadata | None = None,
        **options: Unpack[CallOptions],
    ) -> IngestedDocument:
        """Ingest a text.

        Args:
            base: the knowledge base.
            name: name of the document. A document of this name is replaced.
            media_type: media type; `text/markdown` for a text whose headings are marked.
            metadata: metadata of its chunks beside the gateway's keys.
            **options: see `CallOptions`.

        Returns:
            The document, which searches find.

        Raises:
            DocumentFailed: it was not ingested.
        """
        return await self._ingest_one(base, TextDocument(name, text, media_type, metadata or {}), options)

    async def ingest_page(
        self,
        base: BaseLike,
        url: str,
        *,
        name: str = "",
        metadata: Metadata | None = None,
        **options: Unpack[CallOptions],
    ) -> IngestedDocument:
        """Ingest a page of the web, which the gateway reads.

        Args:
            base: the knowledge base.
            url: the page.
            name: name of the document; the URL by default.
            metadata: metadata of its chunks beside the gateway's keys.
            **options: see `CallOptions`.

        Returns:
            The document, which searches find.

        Raises:
            DocumentFailed: it was not ingested, or the page cannot be read.
        """
        return await self._ingest_one(base, PageDocument(url, name, metadata or {}), options)

    async def _ingest_one(self, base: BaseLike, document: NewContent, options: CallOptions) -> IngestedDocument:
        (outcome,) = (await self.ingest_all(base, [document], **options)).documents
        outcome.raise_for_failure()
        return outcome
