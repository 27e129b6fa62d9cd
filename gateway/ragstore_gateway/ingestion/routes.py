"""The routes of documents: ingestion, its state, the list, deletion."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.datastructures import ResponseHeader
from litestar.di import NamedDependency
from litestar.params import SkipValidation
from litestar.types import ControllerRouterHandler

from ragstore.kit.context import record_write
from ragstore.kit.errors import BodyTimeout, BodyTooLarge, ServiceError, UnsupportedMediaType
from ragstore.kit.middleware.bodies import LARGE_BODY
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.api.openapi import OPERATION
from ragstore_gateway.api.piecewise import piecewise, raw_text
from ragstore_gateway.api.uploads import read_upload
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.where_template import variables_of
from ragstore_gateway.errors import (
    ConfigurationNotFound,
    DatabaseUnavailable,
    DocumentNotFound,
    IngestionEnded,
    IngestionNotFound,
    QueueFull,
)
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.kept_text import headings_of, pages_of
from ragstore_gateway.ingestion.acceptance import NewContent
from ragstore_gateway.ingestion.assembly import Ingestion
from ragstore_gateway.ingestion.batch_uploads import read_uploads
from ragstore_gateway.ingestion.document_metadata import filled_metadata, read_metadata
from ragstore_gateway.ingestion.names import checked_name
from ragstore_gateway.ingestion.route_parameters import (
    BATCH,
    UPLOAD,
    BaseId,
    DocumentIds,
    DocumentName,
    Filter,
    Index,
    IngestionId,
    IngestionIds,
    KbId,
    Limit,
    Metadata,
    State,
    Version,
)
from ragstore_gateway.ingestion.schemas import (
    AcceptedBatch,
    AcceptedIngestion,
    BatchOutcome,
    DocumentEntry,
    DocumentList,
    DocumentText,
    IngestionProgress,
    IngestionStatus,
    entry_of,
    list_of,
    progress_of,
    status_of,
)
from ragstore_gateway.ingestion.tables import IngestionRow
from ragstore_gateway.keys import READER, WRITER
from ragstore_gateway.settings import Settings
from ragstore_gateway.tenants.errors import TenantBytesExceeded, TenantDocumentsExceeded

IngestionDependency = SkipValidation[NamedDependency[Ingestion]]
BasesDependency = SkipValidation[NamedDependency[Configurations[KnowledgeBase]]]
SettingsDependency = SkipValidation[NamedDependency[Settings]]

_ABOVE: Final = re.compile(r"^.*?/(?:documents|texts)/+")
_BASE_ERRORS: Final = (ConfigurationNotFound, DatabaseUnavailable)


@post(
    "/ragstore/rags/{id:str}/ingest",
    status_code=202,
    opt={
        **WRITER,
        **LARGE_BODY,
        ERRORS: (
            *_BASE_ERRORS,
            QueueFull,
            TenantDocumentsExceeded,
            TenantBytesExceeded,
            BodyTimeout,
            BodyTooLarge,
            UnsupportedMediaType,
        ),
        OPERATION: UPLOAD,
    },
    operation_id="ingestDocument",
    summary="Ingest a document",
    tags=["knowledge bases"],
    response_headers=[ResponseHeader(name="Location", description="Path of the status.", documentation_only=True)],
)
async def ingest_document(
    request: Request[Any, Any, Any],
    id: BaseId,
    ingestion: IngestionDependency,
    knowledge_bases: BasesDependency,
    settings: SettingsDependency,
    version: Version = 0,
    kb_id: KbId = "",
    document_name: DocumentName = "",
    metadata: Metadata = "",
) -> Response[AcceptedIngestion]:
    """Accept a document. Its text is extracted, split, embedded and stored in the background.

    Searches find the document when all of it is stored. Until then, they find the document that it replaces.
    """
    base = await knowledge_bases.read(id, version)
    variables = variables_of(request.scope, settings.session_from)
    upload = await read_upload(request, settings.max_document_bytes)
    given = read_metadata(metadata or upload.fields.get("metadata", ""))
    name = checked_name(document_name) if document_name else checked_name(upload.name, "$.file")
    content = NewContent(
        name, upload.media_type, upload.content, kb_id or base.body.name, filled_metadata(given, variables)
    )
    accepted = await ingestion.ingest(id, content)
    record_write(f"ragstore/rags/{id}/documents/{accepted.document_name}", 1)
    return Response(
        AcceptedIngestion(accepted.id, accepted.kb_id),
        headers={"Location": f"/ragstore/rags/{id}/ingestion/{accepted.id}/status"},
    )


@post(
    "/ragstore/rags/{id:str}/ingest/batch",
    status_code=202,
    opt={
        **WRITER,
        **LARGE_BODY,
        ERRORS: (*_BASE_ERRORS, BodyTimeout, BodyTooLarge, UnsupportedMediaType),
        OPERATION: BATCH,
    },
    operation_id="ingestDocuments",
    summary="Ingest many documents",
    tags=["knowledge bases"],
)
async def ingest_documents(
    request: Request[Any, Any, Any],
    id: BaseId,
    ingestion: IngestionDependency,
    knowledge_bases: BasesDependency,
    settings: SettingsDependency,
    version: Version = 0,
    kb_id: KbId = "",
    metadata: Metadata = "",
) -> AcceptedBatch:
    """Accept up to 1,000 documents with one transaction: the files of a form, or lines of JSON.

    A document that cannot be accepted is `rejected`, and has no effect on the others. Of several documents with one
    name, the last one wins.
    """
    base = await knowledge_bases.read(id, version)
    variables = variables_of(request.scope, settings.session_from)
    shared = filled_metadata(read_metadata(metadata), variables)
    uploads = await read_uploads(
        request,
        settings.max_document_bytes,
        lambda own: shared if own is None else filled_metadata(own, variables),
    )
    kb_id = kb_id or base.body.name
    valid = [
        NewContent(each.name, each.upload.media_type, each.upload.content, kb_id, each.metadata or {})
        for each in uploads
        if each.upload is not None
    ]
    accepted = iter(await ingestion.ingest_many(id, valid) if valid else ())
    outcomes = [_outcome(each.name, each.error or next(accepted)) for each in uploads]
    record_write(f"ragstore/rags/{id}/documents", sum(outcome.status == "pending" for outcome in outcomes))
    return AcceptedBatch(kb_id, outcomes)


def _outcome(name: str, outcome: IngestionRow | ServiceError) -> BatchOutcome:
    if isinstance(outcome, ServiceError):
        return BatchOutcome(name, "rejected", code=outcome.code, detail=outcome.detail)
    return BatchOutcome(outcome.document_name, "pending", outcome.id)


@get(
    "/ragstore/rags/{id:str}/ingestion/{ingestion_id:str}/status",
    opt={**READER, ERRORS: (IngestionNotFound, DatabaseUnavailable)},
    operation_id="getIngestionStatus",
    summary="Status of an ingestion",
    tags=["knowledge bases"],
)
async def ingestion_status(id: BaseId, ingestion_id: IngestionId, ingestion: IngestionDependency) -> IngestionStatus:
    """The state of an ingestion. It is kept for some days after its end."""
    return status_of(await ingestion.documents.ingestion(id, ingestion_id))


@get(
    "/ragstore/rags/{id:str}/ingestions",
    opt={**READER, ERRORS: (*_BASE_ERRORS, IngestionNotFound)},
    operation_id="getIngestionProgress",
    summary="Progress of the ingestions of a knowledge base",
    tags=["knowledge bases"],
)
async def ingestion_progress(
    id: BaseId,
    ingestion: IngestionDependency,
    knowledge_bases: BasesDependency,
    ingestion_id: IngestionIds = (),
) -> IngestionProgress:
    """How many documents wait, for what, and at which rate they are ingested; and the states of some ingestions."""
    await knowledge_bases.read(id)
    return progress_of(*await ingestion.documents.queue(id, ingestion_id))


@delete(
    ["/ragstore/rags/{id:str}/ingestion/{ingestion_id:str}"],
    status_code=204,
    opt={**WRITER, ERRORS: (IngestionNotFound, IngestionEnded, DatabaseUnavailable)},
    operation_id="cancelIngestion",
    summary="Cancel an ingestion",
    tags=["knowledge bases"],
)
async def cancel_ingestion(id: BaseId, ingestion_id: IngestionId, ingestion: IngestionDependency) -> None:
    """Cancel an ingestion. The document stays as it was before."""
    await ingestion.cancel(id, ingestion_id)


@get(
    "/ragstore/rags/{id:str}/documents",
    opt={**READER, ERRORS: _BASE_ERRORS},
    operation_id="listKnowledgeBaseDocuments",
    summary="List documents",
    tags=["knowledge bases"],
)
async def list_documents(
    id: BaseId,
    ingestion: IngestionDependency,
    knowledge_bases: BasesDependency,
    filter: Filter = "",
    status: State = None,
    document_id: DocumentIds = (),
    index: Index = 0,
    limit: Limit = 20,
) -> DocumentList:
    """A page of the documents of a knowledge base, by name, and the number of documents in each state."""
    await knowledge_bases.read(id)
    return list_of(await ingestion.documents.documents(id, index, limit, filter, status, document_id))


@get(
    "/ragstore/rags/{id:str}/documents/{name:path}",
    opt={**READER, ERRORS: (*_BASE_ERRORS, DocumentNotFound)},
    operation_id="getKnowledgeBaseDocument",
    summary="Read a document's state",
    tags=["knowledge bases"],
)
async def read_document(
    request: Request[Any, Any, Any],
    id: BaseId,
    name: str,
    ingestion: IngestionDependency,
    knowledge_bases: BasesDependency,
) -> DocumentEntry:
    """A document of a knowledge base."""
    await knowledge_bases.read(id)
    return entry_of(await ingestion.documents.find(id, _name_in_path(request)))


@get(
    "/ragstore/rags/{id:str}/texts/{name:path}",
    opt={**WRITER, ERRORS: (*_BASE_ERRORS, DocumentNotFound)},
    operation_id="getKnowledgeBaseDocumentText",
    summary="Read a document's text",
    tags=["knowledge bases"],
)
async def read_document_text(
    request: Request[Any, Any, Any],
    id: BaseId,
    name: str,
    ingestion: IngestionDependency,
    knowledge_bases: BasesDependency,
) -> Response[DocumentText]:
    """The extracted text of a document that searches find, for an export."""
    await knowledge_bases.read(id)
    name = _name_in_path(request)
    kept = await ingestion.documents.kept_text(id, name)
    metadata = (await ingestion.documents.find(id, name)).metadata
    return piecewise(DocumentText, [await asyncio.to_thread(_encoded_text, name, kept, metadata)])


def _encoded_text(name: str, kept: bytes, metadata: Mapping[str, Any]) -> bytes:
    """A `DocumentText`, encoded.

    Args:
        name: the document's name.
        kept: an `Extracted` as MessagePack.
        metadata: the document's metadata.
    """
    extracted = msgspec.msgpack.decode(kept, type=Extracted)
    text = DocumentText(
        name=name,
        type=extracted.media_type,
        title=extracted.title,
        language=extracted.language,
        published=extracted.published,
        text=cast("str", raw_text(extracted.text)),
        pages=pages_of(extracted),
        headings=headings_of(extracted),
        metadata=dict(metadata),
    )
    return msgspec.json.encode(text)


@delete(
    "/ragstore/rags/{id:str}/documents/{name:path}",
    status_code=204,
    opt={**WRITER, ERRORS: (*_BASE_ERRORS, DocumentNotFound)},
    operation_id="deleteKnowledgeBaseDocument",
    summary="Delete a document",
    tags=["knowledge bases"],
)
async def delete_document(
    request: Request[Any, Any, Any],
    id: BaseId,
    name: str,
    ingestion: IngestionDependency,
    knowledge_bases: BasesDependency,
) -> None:
    """Delete a document with its vectors. No search finds it after this response."""
    await knowledge_bases.read(id)
    await ingestion.delete(id, _name_in_path(request))


ROUTES: Final[list[ControllerRouterHandler]] = [
    ingest_document,
    ingest_documents,
    ingestion_status,
    ingestion_progress,
    cancel_ingestion,
    list_documents,
    read_document,
    read_document_text,
    delete_document,
]
"""The routes of documents."""


def _name_in_path(request: Request[Any, Any, Any]) -> str:
    """The name of the document in a path, from the path as it was sent.

    Litestar's own parameter merges consecutive slashes. The result would be another document's name, and no URL's.
    """
    raw: str = request.scope["raw_path"].decode("latin-1")
    return unquote(_ABOVE.sub("", raw, count=1))
