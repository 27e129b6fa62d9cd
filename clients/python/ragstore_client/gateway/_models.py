"""Documents, ingestions and passages of the gateway, as structs.

Unknown fields of a response are ignored, so that a newer gateway can send more.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from ragstore_client._types import Scalar

DocumentStatus: TypeAlias = Literal["pending", "processing", "completed", "failed"]


class DocumentEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A document of a knowledge base.

    Attributes:
        id: metadata `document_id` of its chunks.
        type: media type, as declared.
        bytes: size of its content.
        chunks: number of its chunks.
        hash: SHA-256 of its content.
        searchable: whether searches find it.
        status: state of its last ingestion: `pending`, `processing`, `completed`, or `failed:` and the reason.
        progress: share of the chunks that its last ingestion has embedded, 0 to 1.
        ingestion_id: its last ingestion.
        metadata: metadata of its chunks beside the gateway's keys.
        waiting_for: why its last ingestion waits; empty if it does not.
        reindexing_error: why the changed configuration of the base is not used yet; empty for none.
    """

    name: str
    status: str
    chunks: int
    id: str = ""
    type: str = ""
    bytes: int = 0
    hash: str = ""
    searchable: bool = False
    progress: float = 0.0
    ingestion_id: str = ""
    created_on: str = ""
    last_modified_on: str = ""
    metadata: dict[str, Scalar] = {}
    waiting_for: str = ""
    reindexing_error: str = ""


class DocumentList(msgspec.Struct, frozen=True):
    """A page of the documents of a knowledge base, by name.

    Attributes:
        total: number of documents that match the filter and the status.
        states: number of documents that match the filter, by the state of their last ingestion.
    """

    documents: list[DocumentEntry]
    total: int = 0
    states: dict[str, int] = {}


class TextPage(msgspec.Struct, frozen=True):
    """A page of a text, from `start` to `end`, in characters."""

    number: int
    start: int
    end: int


class TextHeading(msgspec.Struct, frozen=True):
    """A heading of a text, from `start` to `end`, in characters."""

    level: int
    text: str
    start: int
    end: int


class DocumentText(msgspec.Struct, frozen=True, kw_only=True):
    """The extracted text of a document.

    Attributes:
        type: media type, as recognised.
        language: ISO 639-1 code, if known.
        published: date of publication, if known.
        metadata: metadata of its chunks beside the gateway's keys.
    """

    name: str
    text: str
    type: str
    title: str = ""
    language: str = ""
    published: str = ""
    pages: list[TextPage] = []
    headings: list[TextHeading] = []
    metadata: dict[str, Scalar] = {}


class AcceptedIngestion(msgspec.Struct, frozen=True, rename="camel"):
    """An accepted document. Its ingestion ends, whatever is restarted meanwhile."""

    ingestion_id: str
    kb_id: str = ""


class BatchOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome of one document of a request with several.

    Attributes:
        ingestion_id: its ingestion; empty if it was rejected.
        code: code of the error.
        detail: why it was rejected.
    """

    document_name: str = ""
    status: str = ""
    ingestion_id: str = ""
    code: str = ""
    detail: str = ""


class AcceptedBatch(msgspec.Struct, frozen=True, rename="camel"):
    """The outcomes of the documents of a request, in their order."""

    documents: list[BatchOutcome]
    kb_id: str = ""


class IngestionStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of an ingestion.

    Attributes:
        status: `pending`, `processing`, `completed`, or `failed:` and the reason.
        chunks: number of chunks, as far as it is known.
        progress: share of the chunks that are embedded, 0 to 1.
        unchanged: whether the document has this content already, so that nothing was embedded.
        attempt: how often the ingestion has begun.
        waiting_for: why it waits; empty if it does not.
        finished_on: when it ended; empty before.
    """

    ingestion_id: str
    status: str
    chunks: int
    progress: float
    unchanged: bool
    kb_id: str = ""
    document_name: str = ""
    attempt: int = 0
    created_on: str = ""
    waiting_for: str = ""
    finished_on: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether it has completed or failed."""
        return self.status not in ("pending", "processing")

    @property
    def error(self) -> str:
        """Why it failed; empty if it did not."""
        return self.status.removeprefix("failed: ") if self.status.startswith("failed: ") else ""


class IngestionProgress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The ingestions of a knowledge base that have not ended, and the states of some ingestions.

    Attributes:
        waiting: number of documents that have not begun.
        processing: number of documents that have begun.
        waiting_for: number of documents that wait for something, by its name.
        documents_per_second: rate of the last minute.
        ingestions: the states that the call names, in its order.
        estimated_seconds: time until all have ended, at this rate; None if it is not known.
        reindexing: number of documents that the new collection lacks after a change of the base; None if searches use
            the newest collection.
    """

    waiting_for: dict[str, int] = {}
    ingestions: list[IngestionStatus] = []
    waiting: int = 0
    processing: int = 0
    documents_per_second: float = 0.0
    estimated_seconds: float | None = None
    reindexing: int | None = None


class KnowledgeBaseHit(msgspec.Struct, frozen=True):
    """A passage that a search found.

    Attributes:
        id: id of the chunk.
        score: its relevance, 0 to 1; 0.5 is unrelated.
        metadata: `document_name` and `page_number` among others.
    """

    id: str
    text: str
    score: float
    metadata: dict[str, Scalar]

    @property
    def source(self) -> str:
        """Its document, with the page and the heading if they are known."""
        known = (("document_name", "{}"), ("page_number", "page {}"), ("section_heading", "{}"))
        return ", ".join(text.format(self.metadata[key]) for key, text in known if key in self.metadata)


class KnowledgeBaseHits(msgspec.Struct, frozen=True):
    """The passages that a search found, the best one first."""

    results: list[KnowledgeBaseHit]


class ExtractedPage(msgspec.Struct, frozen=True):
    """A page of the web that the gateway has read.

    Attributes:
        ok: whether it has a text.
        error: why not.
        code: the kind of error.
    """

    ok: bool
    text: str = ""
    error: str = ""
    code: str = ""


class ExtractResponse(msgspec.Struct, frozen=True):
    """The pages of a request, in its order."""

    items: list[ExtractedPage]


class AccessLimits(msgspec.Struct, frozen=True, rename="camel"):
    """Limits of requests, in bytes."""

    max_body_bytes: int
    max_small_body_bytes: int
    max_document_bytes: int


class GatewayRights(msgspec.Struct, frozen=True, rename="camel"):
    """The rights of a key in the gateway."""

    role: str = ""


class KeyAccess(msgspec.Struct, frozen=True):
    """The key of a request."""

    name: str
    gateway: GatewayRights | None = None


class Access(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The gateway, its limits, and the rights of the client's key.

    Attributes:
        key: the key; None if the request has none.
        chat: whether the gateway has an upstream, and so models for chat.
        formats: extensions of files that can be ingested.
    """

    version: str
    keys_required: bool
    key: KeyAccess | None
    chat: bool
    formats: list[str]
    limits: AccessLimits
