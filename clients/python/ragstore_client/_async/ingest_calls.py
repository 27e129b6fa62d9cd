"""The calls of `AsyncClient` that store any number of documents."""

from __future__ import annotations

from typing import Unpack

from ragstore_client import _calls as calls
from ragstore_client._async.base import CallSender
from ragstore_client._async.ingestion import AsyncIngestion
from ragstore_client._async.runtime import DocumentSource
from ragstore_client._batches import BatchLimits, IngestOptions, Mode
from ragstore_client._models import Strings
from ragstore_client._options import CallOptions
from ragstore_client._report import IngestionInterrupted, IngestionReport

INGESTION_RETRY_SECONDS = 60.0


class IngestCalls(CallSender):
    """Store any number of documents."""

    def ingest(
        self,
        collection: str,
        documents: DocumentSource,
        *,
        mode: Mode = "upsert",
        concurrency: int = 4,
        limits: BatchLimits | None = None,
        retry_seconds: float = INGESTION_RETRY_SECONDS,
        progress: bool = False,
        **options: Unpack[CallOptions],
    ) -> AsyncIngestion:
        """Store any number of documents and report the outcome of each.

        The ingestion advances only while it is iterated: `ingest_all` is for those who need no outcome one by one.
        Memory holds `concurrency` + 1 requests. Exactly the documents that the service rejects fail. After an error,
        run it again from the last outcome or from the start: `upsert` stores a document again with the same result.

        Args:
            collection: name of the collection.
            documents: any iterable, or asynchronous iterable, of documents. Each needs an id; of several documents
                with the same id the last one wins.
            mode: `upsert`, or `add` where an existing id must fail.
            concurrency: maximum number of requests in flight.
            limits: the limits of a request; `BatchLimits()` when None.
            retry_seconds: how long a request is retried while the service is away or busy. It has no effect when the
                client's retries are off, or when `retries` is given.
            progress: show a progress bar, by tqdm or rich, whichever is installed.
            **options: see `CallOptions`.

        Returns:
            An iterator over the outcomes, one for every document that was read, in order, with a `report`. Iterating
            raises the error that ended the ingestion after the outcomes of all documents that were read. An error of
            the iterable `documents` itself is raised at the same point.
        """
        call = calls.upsert_documents if mode == "upsert" else calls.add_documents
        client = self._lasting(retry_seconds, options)
        return AsyncIngestion(
            lambda body: client._send(call(collection, body)),
            documents,
            limits or BatchLimits(),
            concurrency,
            progress=progress,
        )

    async def ingest_all(
        self, collection: str, documents: DocumentSource, **options: Unpack[IngestOptions]
    ) -> IngestionReport:
        """Store any number of documents, all of them, and count.

        Args:
            collection: name of the collection.
            documents: as for `ingest`.
            **options: as for `ingest`.

        Returns:
            The counts and the failures. `raise_for_failures()` raises if a document failed.

        Raises:
            RagstoreError: the error that ended the ingestion, with the counts as a note. Keep the object that `ingest`
                returns where the failures before such an error matter.
            IngestionInterrupted: Ctrl-C; it has the report.
        """
        ingestion = self.ingest(collection, documents, **options)
        try:
            async for _ in ingestion:
                pass
        except KeyboardInterrupt:
            raise IngestionInterrupted(ingestion.report) from None
        except BaseException as error:
            error.add_note(f"ingestion into {collection!r}: {ingestion.report}")
            raise
        return ingestion.report

    async def ingest_frame(
        self,
        collection: str,
        frame: object,
        *,
        id: str = "id",
        text: str = "text",
        embedding: str = "embedding",
        metadata: Strings | None = None,
        **options: Unpack[IngestOptions],
    ) -> IngestionReport:
        """Store the rows of a table: of pandas, Polars, Arrow, DuckDB, or anything else with Arrow's C interface.

        Args:
            collection: name of the collection.
            frame: the table, or a mapping of column names to columns.
            id: name of the column with the ids.
            text: name of the column with the texts.
            embedding: name of the column with the vectors.
            metadata: names of the columns with metadata; all others when None. A missing value is left out.
            **options: as for `ingest`.

        Returns:
            The counts and the failures, as `ingest_all`.

        Raises:
            InvalidInput: the object is no table, or has no such column.
        """
        from ragstore_client._frames import frame_documents

        rows = frame_documents(frame, id=id, text=text, embedding=embedding, metadata=metadata)
        return await self.ingest_all(collection, rows, **options)
