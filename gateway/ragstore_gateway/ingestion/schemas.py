"""The bodies of the routes for documents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore_gateway.extraction.kept_text import KeptText
from ragstore_gateway.ingestion.document_metadata import DocumentMetadata
from ragstore_gateway.ingestion.documents import Document, DocumentPage, DocumentState
from ragstore_gateway.ingestion.queue_state import QueueState
from ragstore_gateway.ingestion.tables import IngestionRow
from ragstore_gateway.ingestion.transactions import COMPLETED, PENDING, PROCESSING, UNFINISHED

QUEUE: Final = "queue"
"""The value of `waitingFor` of an ingestion that has not begun."""

Status: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^(pending|processing|completed|failed: .*)$",
        description="`pending`, `processing`, `completed`, or `failed: ` and the reason.",
        examples=["completed", "failed: The document has no text"],
    ),
]


class AcceptedIngestion(Struct, frozen=True, rename="camel"):
    """An accepted document. Its ingestion ends, whatever is restarted meanwhile."""

    ingestion_id: Annotated[str, Meta(description="Id of the ingestion.")]
    kb_id: Annotated[str, Meta(description="The `kbId` of the request, or the name of the knowledge base.")]
    status: Literal["pending"] = "pending"


class BatchLine(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A document of a request with many, as a line of JSON. It has either text or content."""

    document_name: Annotated[
        str, Meta(description="Name of the document. An existing document of the name is replaced.")
    ] = ""
    content_type: Annotated[str, Meta(description="Media type.")] = "text/plain"
    text: Annotated[str | UnsetType, Meta(description="The document as text.")] = UNSET
    content: Annotated[
        bytes | UnsetType, Meta(description="The document in Base64.", extra_json_schema={"format": "byte"})
    ] = UNSET
    metadata: DocumentMetadata | UnsetType = UNSET


class BatchOutcome(Struct, frozen=True, rename="camel"):
    """The outcome of one document of a request with many."""

    document_name: Annotated[str, Meta(description="Name of the document; empty if its line has none.")]
    status: Annotated[
        Literal["pending", "rejected"],
        Meta(description="`pending`: it is accepted, and its ingestion ends. `rejected`: nothing was written."),
    ]
    ingestion_id: Annotated[str | UnsetType, Meta(description="Id of the ingestion.")] = UNSET
    code: Annotated[str | UnsetType, Meta(description="Code of the error, as of a problem document.")] = UNSET
    detail: Annotated[str | UnsetType, Meta(description="Why it was rejected.")] = UNSET


class AcceptedBatch(Struct, frozen=True, rename="camel"):
    """The outcomes of the documents of a request, in their order."""

    kb_id: Annotated[str, Meta(description="The `kbId` of the request, or the name of the knowledge base.")]
    documents: list[BatchOutcome]


class IngestionStatus(Struct, frozen=True, rename="camel"):
    """The state of an ingestion."""

    ingestion_id: str
    status: Status
    kb_id: Annotated[str, Meta(description="The `kbId` of the request, or the name of the knowledge base.")]
    document_name: Annotated[str, Meta(description="Name of the document.")]
    chunks: Annotated[int, Meta(ge=0, description="Number of chunks, as far as it is known.")]
    progress: Annotated[float, Meta(ge=0, le=1, description="Share of the chunks that are embedded.")]
    unchanged: Annotated[
        bool, Meta(description="Whether the document has this content already, so that nothing was embedded.")
    ]
    attempt: Annotated[
        int, Meta(ge=0, description="How often the ingestion has begun: more than once after an interruption.")
    ]
    created_on: Annotated[datetime, Meta(description="When the document was accepted.")]
    waiting_for: Annotated[
        str | UnsetType,
        Meta(
            description="Why it waits: `queue` before it begins; while a call is repeated, the code of its error.",
            examples=["queue", "embedding_unavailable"],
        ),
    ] = UNSET
    finished_on: Annotated[datetime | UnsetType, Meta(description="When the ingestion ended.")] = UNSET


class IngestionProgress(Struct, frozen=True, rename="camel"):
    """The ingestions of a knowledge base that have not ended, and the states of some ingestions."""

    waiting: Annotated[int, Meta(ge=0, description="Number of documents that have not begun.")]
    processing: Annotated[int, Meta(ge=0, description="Number of documents that have begun.")]
    waiting_for: Annotated[
        dict[str, int], Meta(description="Number of documents that wait for something, by its name; see the status.")
    ]
    documents_per_second: Annotated[float, Meta(ge=0, description="Rate of the last minute.")]
    ingestions: Annotated[list[IngestionStatus], Meta(description="The ingestions of the query, in its order.")]
    estimated_seconds: Annotated[
        float | UnsetType,
        Meta(description="Time until all have ended, at this rate; absent if none has ended within a minute."),
    ] = UNSET
    reindexing: Annotated[
        Annotated[int, Meta(ge=0)] | UnsetType,
        Meta(
            description="Number of documents that the new collection lacks after a change of the base's configuration; "
            "absent if searches use the newest collection.",
        ),
    ] = UNSET


class DocumentEntry(Struct, frozen=True, rename="camel"):
    """A document of a knowledge base."""

    name: str
    id: Annotated[str, Meta(description="Metadata `document_id` of its chunks.")]
    type: Annotated[str, Meta(description="Media type, as declared.")]
    bytes: Annotated[int, Meta(ge=0, description="Size of its content.")]
    chunks: Annotated[int, Meta(ge=0, description="Number of its chunks.")]
    hash: Annotated[str, Meta(description="SHA-256 of its content.")]
    searchable: Annotated[bool, Meta(description="Whether a revision of it is complete, so that searches find it.")]
    status: Annotated[Status, Meta(description="State of its last ingestion.")]
    progress: Annotated[
        float,
        Meta(ge=0, le=1, description="Share of the chunks that its last ingestion has embedded; 1 if it completed."),
    ]
    ingestion_id: Annotated[str, Meta(description="Id of its last ingestion.")]
    created_on: datetime
    last_modified_on: Annotated[datetime, Meta(description="When its content changed.")]
    metadata: Annotated[
        dict[str, str | bool | int | float],
        Meta(description="Metadata of its chunks beside the gateway's keys: the metadata of its ingestion."),
    ]
    waiting_for: Annotated[
        str | UnsetType, Meta(description="Why its last ingestion waits; see the state of an ingestion.")
    ] = UNSET
    reindexing_error: Annotated[
        str | UnsetType,
        Meta(
            description="Why the knowledge base's changed configuration is not used yet: this document could not be "
            "embedded or stored again. It is repeated after 30 seconds to 6 hours, 20 times in all; the text then "
            "ends with `given up after 20 attempts`, and an ingestion of the document, or an update of the knowledge "
            "base, begins further ones."
        ),
    ] = UNSET


class DocumentList(Struct, frozen=True):
    """A page of the documents of a knowledge base, by name."""

    documents: list[DocumentEntry]
    total: Annotated[int, Meta(ge=0, description="Number of documents that match `filter` and `status`.")]
    states: Annotated[
        dict[DocumentState, Annotated[int, Meta(ge=0)]],
        Meta(description="Number of documents that match `filter`, by the state of their last ingestion."),
    ]


class DocumentText(KeptText, frozen=True, kw_only=True):
    """The extracted text of a document. The metadata `char_start` and `char_end` of a chunk are indexes of it."""

    name: str
    metadata: Annotated[
        dict[str, str | bool | int | float], Meta(description="Metadata of its chunks beside the gateway's keys.")
    ] = {}


def status_of(row: IngestionRow) -> IngestionStatus:
    """The state of an ingestion."""
    return IngestionStatus(
        row.id,
        _status(row.state, row.message),
        row.kb_id,
        row.document_name,
        row.chunks,
        _progress(row.state, row.chunks, row.chunks_embedded),
        row.unchanged,
        row.attempts,
        row.created_on,
        _waiting_for(row.state, row.waiting_for) or UNSET,
        row.finished_on or UNSET,
    )


def _progress(state: str, chunks: int, embedded: int) -> float:
    if state == COMPLETED:
        return 1.0
    return round(min(1.0, embedded / chunks), 3) if chunks else 0.0


def _waiting_for(state: str, code: str) -> str:
    if state == PENDING:
        return QUEUE
    return code if state == PROCESSING else ""


def progress_of(queue: QueueState, rows: Sequence[IngestionRow]) -> IngestionProgress:
    """The progress of a knowledge base.

    Args:
        rows: the ingestions whose states are wanted.
    """
    left = queue.waiting + queue.processing
    waiting_for = {**queue.waiting_for, **({QUEUE: queue.waiting} if queue.waiting else {})}
    return IngestionProgress(
        queue.waiting,
        queue.processing,
        waiting_for,
        round(queue.documents_per_second, 2),
        [status_of(row) for row in rows],
        round(left / queue.documents_per_second, 1) if queue.documents_per_second else UNSET,
        UNSET if queue.reindexing is None else queue.reindexing,
    )


def entry_of(document: Document) -> DocumentEntry:
    """A document of a list."""
    return DocumentEntry(
        document.name,
        document.id,
        document.media_type,
        document.bytes,
        document.chunks,
        document.content_hash,
        document.is_searchable,
        _status(document.state, document.message),
        _progress(document.state, document.chunks_expected, document.chunks_embedded),
        document.ingestion_id,
        document.created_on,
        document.modified_on,
        dict(document.metadata),
        _waiting_for(document.state, document.waiting_for) or UNSET,
        document.reindexing_error or UNSET,
    )


def list_of(page: DocumentPage) -> DocumentList:
    """A page of a list."""
    return DocumentList([entry_of(document) for document in page.documents], page.total, dict(page.states))


def _status(state: str, message: str) -> str:
    return state if state in (*UNFINISHED, COMPLETED) else f"failed: {message}"
