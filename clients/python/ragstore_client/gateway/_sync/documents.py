# Generated from _async/documents.py by scripts/generate_sync_client.py: do not edit.
"""The calls of `GatewayClient` about documents of a knowledge base, and searches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Unpack

from ragstore_client._call import Call
from ragstore_client._options import CallOptions
from ragstore_client._sync.base import CallSender
from ragstore_client._types import Where
from ragstore_client.gateway import _calls as calls
from ragstore_client.gateway import _models as models
from ragstore_client.gateway._calls import BaseLike, id_of
from ragstore_client.gateway._sync.runs import iter_pages


class DocumentCalls(CallSender):
    """Read, delete and search documents."""

    def list_documents(
        self,
        base: BaseLike,
        part: str = "",
        *,
        status: models.DocumentStatus | None = None,
        index: int | None = None,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> models.DocumentList:
        """List documents, by name.

        Args:
            base: the knowledge base.
            part: part of their names.
            status: the state of their last ingestion; any when None.
            index: number of the page, from 0.
            limit: maximum number of documents on the page.
            **options: see `CallOptions`.

        Returns:
            One page.
        """
        call = calls.list_documents(id_of(base), part=part, status=status, index=index, limit=limit)
        return self._send(call, options)

    def iter_documents(
        self,
        base: BaseLike,
        part: str = "",
        *,
        status: models.DocumentStatus | None = None,
        page_size: int = 200,
        **options: Unpack[CallOptions],
    ) -> Iterator[models.DocumentEntry]:
        """Iterate over documents, by name.

        Args:
            base: the knowledge base.
            part: as for `list_documents`.
            status: as for `list_documents`.
            page_size: number of documents per request.
            **options: see `CallOptions`.

        Returns:
            An iterator. Documents that are written or deleted during the iteration may shift the pages.
        """

        def call(index: int) -> Call[models.DocumentList]:
            return calls.list_documents(id_of(base), part=part, status=status, index=index, limit=page_size)

        return iter_pages(self, call, lambda page: page.documents, page_size, options)

    def get_document(self, base: BaseLike, name: str, **options: Unpack[CallOptions]) -> models.DocumentEntry:
        """Get a document.

        Args:
            base: the knowledge base.
            name: name of the document.
            **options: see `CallOptions`.

        Raises:
            NotFound: there is none.
        """
        return self._send(calls.get_document(id_of(base), name), options)

    def document_text(self, base: BaseLike, name: str, **options: Unpack[CallOptions]) -> models.DocumentText:
        """Get the extracted text of a document, with its pages and headings. The key needs the role writer.

        Args:
            base: the knowledge base.
            name: name of the document.
            **options: see `CallOptions`.

        Raises:
            NotFound: there is no such document, or it has no text yet.
        """
        return self._send(calls.document_text(id_of(base), name), options)

    def delete_document(self, base: BaseLike, name: str, **options: Unpack[CallOptions]) -> None:
        """Delete a document.

        Args:
            base: the knowledge base.
            name: name of the document.
            **options: see `CallOptions`.

        Raises:
            NotFound: there is none.
        """
        self._send(calls.delete_document(id_of(base), name), options)

    def ingestion_status(
        self, base: BaseLike, ingestion_id: str, **options: Unpack[CallOptions]
    ) -> models.IngestionStatus:
        """Get the state of an ingestion.

        Args:
            base: the knowledge base.
            ingestion_id: the ingestion.
            **options: see `CallOptions`.

        Raises:
            NotFound: there is none.
        """
        return self._send(calls.ingestion_status(id_of(base), ingestion_id), options)

    def ingestion_progress(
        self, base: BaseLike, ingestion_ids: Sequence[str] = (), **options: Unpack[CallOptions]
    ) -> models.IngestionProgress:
        """Get how many documents of a knowledge base wait, for what, and the states of some ingestions.

        Args:
            base: the knowledge base.
            ingestion_ids: the ingestions, at most 100.
            **options: see `CallOptions`.
        """
        return self._send(calls.ingestion_progress(id_of(base), ingestion_ids), options)

    def cancel_ingestion(self, base: BaseLike, ingestion_id: str, **options: Unpack[CallOptions]) -> None:
        """Cancel an ingestion that has not ended.

        Args:
            base: the knowledge base.
            ingestion_id: the ingestion.
            **options: see `CallOptions`.

        Raises:
            Conflict: it has ended.
        """
        self._send(calls.cancel_ingestion(id_of(base), ingestion_id), options)

    def search(
        self,
        base: BaseLike,
        question: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        where: Where | None = None,
        earlier: Iterable[str] = (),
        **options: Unpack[CallOptions],
    ) -> list[models.KnowledgeBaseHit]:
        """Find the passages of a knowledge base for a question.

        Args:
            base: the knowledge base.
            max_results: maximum number of passages; the base's own when None.
            min_score: minimum relevance, 0 to 1; the base's own when None.
            where: a filter by metadata.
            earlier: earlier messages of the user, the oldest one first, if the question is a follow-up.
            **options: see `CallOptions`.

        Returns:
            The passages, the best one first.

        Raises:
            BadRequest: the filter or another argument is invalid.
            NotFound: there is no such knowledge base.
        """
        call = calls.search(
            id_of(base), question, max_results=max_results, min_score=min_score, where=where, earlier=earlier
        )
        return (self._send(call, options)).results

    def read_passage(self, base: BaseLike, passage_id: str, **options: Unpack[CallOptions]) -> str:
        """Read a passage as plain text: its document, with page or heading, an empty line, and its text.

        Args:
            base: the knowledge base.
            passage_id: the `id` of a passage that a search returned.
            **options: see `CallOptions`.

        Raises:
            NotFound: there is none.
        """
        return self._send(calls.read_passage(id_of(base), passage_id), options)
