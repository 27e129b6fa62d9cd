"""Routes on documents."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from litestar import Controller, Request, Response, delete, get, patch, post, put
from litestar.di import NamedDependency
from litestar.exceptions import ValidationException
from litestar.params import JSONBody, PathParameter, SkipValidation

from ragstore.api.decode_documents import DocumentsBody, DocumentsDecoder
from ragstore.api.documents_dto import DocumentsDTO
from ragstore.api.media_types import Decoded
from ragstore.api.parameters import (
    MAX_OFFSET,
    MAX_PAGE,
    After,
    CollectionName,
    Exclude,
    Ids,
    Include,
    Limit,
    Offset,
    StoreDependency,
    Total,
    Where,
    WhereDocument,
    distinct_ids,
)
from ragstore.api.roles import READER, WRITER
from ragstore.api.route_options import store_errors
from ragstore.api.schemas import (
    DeleteAllResult,
    DeleteRequest,
    DeleteResult,
    DocumentFilter,
    DocumentsUpdated,
    DocumentUpdates,
    WriteResult,
)
from ragstore.errors import CollectionNotFound, DocumentNotFound, DocumentsExist, DocumentsNotFound
from ragstore.kit.errors import FieldError, InvalidRequest
from ragstore.kit.middleware.bodies import LARGE_BODY
from ragstore.kit.numbers import whole_number
from ragstore.kit.problems import from_service_error, from_validation_exception, invalid_parameters
from ragstore.model.documents import EVERYTHING, Document, DocumentPage, Selection, Write
from ragstore.model.filters.condition import Condition
from ragstore.model.large_bodies.split_documents import missing_documents
from ragstore.operations.check_documents import checked_batch
from ragstore.operations.list_documents import Cursor, Page, list_page, to_documents
from ragstore.operations.update_documents import update_metadata
from ragstore.operations.write_documents import write_batch
from ragstore.store.protocol import Store

DecoderDependency: TypeAlias = SkipValidation[NamedDependency[DocumentsDecoder]]
"""Decodes documents."""

NOTHING_SELECTED: Final = "Either 'ids' or 'where' must be given"


def documents_required(request: Request[Any, Any, Any], error: ValidationException) -> Response[Any]:
    """Respond to an empty body, which Litestar rejects before it is decoded, as to a body without documents."""
    if any(entry.get("key") == "data" for entry in invalid_parameters(error)):
        return from_service_error(request, missing_documents())
    return from_validation_exception(request, error)


class DocumentsController(Controller):
    """Store, list, read and delete documents."""

    path = "/collections/{collection_name:str}/documents"
    tags = ("documents",)
    opt = {**READER, **store_errors(CollectionNotFound, DocumentNotFound)}

    @post(
        dto=DocumentsDTO,
        return_dto=None,
        exception_handlers={ValidationException: documents_required},
        opt={**WRITER, **LARGE_BODY, **store_errors(CollectionNotFound, DocumentsExist)},
        operation_id="addDocuments",
        summary="Add documents",
    )
    async def add(
        self,
        store: StoreDependency,
        collection: CollectionName,
        decoder: DecoderDependency,
        data: JSONBody[DocumentsBody],
    ) -> WriteResult:
        """Add documents with their embeddings, all or none.

        An existing id fails with 409, and nothing is changed. Documents without an id get a generated one.
        """
        with decoder.decoding(data):
            batch = await checked_batch(store, collection, await decoder.decode_body(data))
            await write_batch(store, collection, Write("add", batch))
            await decoder.release(batch)
        return WriteResult("added", collection, len(batch), batch.ids)

    @put(
        dto=DocumentsDTO,
        return_dto=None,
        exception_handlers={ValidationException: documents_required},
        opt={**WRITER, **LARGE_BODY},
        operation_id="upsertDocuments",
        summary="Add or replace documents",
    )
    async def upsert(
        self,
        store: StoreDependency,
        collection: CollectionName,
        decoder: DecoderDependency,
        data: JSONBody[DocumentsBody],
    ) -> WriteResult:
        """Add documents, all or none. A document with an existing id replaces the stored one completely.

        The operation is idempotent, so prefer it for retries.
        """
        with decoder.decoding(data):
            batch = await checked_batch(store, collection, await decoder.decode_body(data))
            await write_batch(store, collection, Write("upsert", batch))
            await decoder.release(batch)
        return WriteResult("upserted", collection, len(batch), batch.ids)

    @patch(
        dto=Decoded[DocumentUpdates],
        return_dto=None,
        exception_handlers={ValidationException: documents_required},
        opt={**WRITER, **store_errors(CollectionNotFound, DocumentsNotFound)},
        operation_id="updateDocuments",
        summary="Change the metadata of documents",
    )
    async def update(
        self, store: StoreDependency, collection: CollectionName, data: JSONBody[DocumentUpdates]
    ) -> DocumentsUpdated:
        """Change the metadata of stored documents, all or none. Their texts and embeddings stay as they are.

        A document that does not exist fails with 404, and nothing is changed. The operation is idempotent.
        """
        updates = [(update.id, update.metadata) for update in data.documents]
        await update_metadata(store, collection, data.mode, updates)
        return DocumentsUpdated("updated", collection, len(updates), data.mode)

    @get(operation_id="listDocuments", summary="List documents")
    async def list_matching(
        self,
        store: StoreDependency,
        collection: CollectionName,
        where: Where = None,
        where_document: WhereDocument = None,
        ids: Ids = None,
        limit: Limit = 100,
        offset: Offset = 0,
        include: Include = None,
        exclude: Exclude = None,
        total: Total = True,
        after: After = None,
    ) -> DocumentPage:
        """List documents in insertion order, with the exact number of all matches."""
        selection = Selection(distinct_ids(ids), Condition.parse_text(where, where_document))
        page = Page(
            min(limit, MAX_PAGE), min(offset, MAX_OFFSET), bool(include), total, not exclude, _cursor(after, offset)
        )
        return await list_page(store, collection, selection, page)

    @post(
        "/filter",
        status_code=200,
        dto=Decoded[DocumentFilter],
        return_dto=None,
        operation_id="filterDocuments",
        summary="List documents by a filter in the body",
    )
    async def filter_matching(
        self, store: StoreDependency, collection: CollectionName, data: JSONBody[DocumentFilter]
    ) -> DocumentPage:
        """List documents as GET does, for filters that are too long for a URL."""
        selection = Selection(distinct_ids(data.ids), Condition.parse(data.where, data.where_document))
        page = Page(
            min(whole_number(data.limit, "$.limit"), MAX_PAGE),
            min(whole_number(data.offset, "$.offset"), MAX_OFFSET),
            bool(data.include),
            data.total,
            not data.exclude,
            _cursor(data.after, data.offset),
        )
        return await list_page(store, collection, selection, page)

    @get("/{document_id:path}", operation_id="getDocument", summary="Get a document")
    async def read(
        self,
        store: StoreDependency,
        collection: CollectionName,
        requested_id: NamedDependency[str],
        document_id: Annotated[
            str, PathParameter(description="The document's id, percent-encoded. It may contain slashes.")
        ],
        include: Include = None,
    ) -> Document:
        """Get one document."""
        documents = await store.get(collection, Selection(ids=(requested_id,)), limit=1, with_embeddings=bool(include))
        for document in to_documents(documents):
            return document
        raise DocumentNotFound(collection, requested_id)

    @delete(status_code=200, opt=WRITER, operation_id="deleteDocuments", summary="Delete documents")
    async def remove(
        self, store: StoreDependency, collection: CollectionName, ids: Ids = None, where: Where = None
    ) -> DeleteResult:
        """Delete the documents with these ids that the filter selects. One of the two is required."""
        return await _delete(store, collection, Selection(distinct_ids(ids), Condition.parse_text(where)))

    @post(
        "/delete",
        status_code=200,
        dto=Decoded[DeleteRequest],
        return_dto=None,
        opt=WRITER,
        operation_id="deleteDocumentsByBody",
        summary="Delete documents by a filter in the body",
    )
    async def remove_by_body(
        self, store: StoreDependency, collection: CollectionName, data: JSONBody[DeleteRequest]
    ) -> DeleteResult:
        """Delete documents as DELETE does, for ids and filters that are too long for a URL."""
        return await _delete(store, collection, Selection(distinct_ids(data.ids), Condition.parse(data.where)))

    @delete("/all", status_code=200, opt=WRITER, operation_id="emptyCollection", summary="Delete all documents")
    async def remove_all(self, store: StoreDependency, collection: CollectionName) -> DeleteAllResult:
        """Delete all documents. The collection keeps its metadata, dimension and distance function."""
        return DeleteAllResult("emptied", collection, await store.delete(collection, EVERYTHING))


def _cursor(after: str | None, offset: float) -> Cursor | None:
    """The cursor of a request.

    Raises:
        InvalidCursor: it is not valid.
        InvalidRequest: the request also has an offset.
    """
    if after is None:
        return None
    if offset:
        message = "Either 'after' or 'offset' may be given"
        raise InvalidRequest(message, [FieldError("after", message)])
    return Cursor.decode(after)


async def _delete(store: Store, collection: str, selection: Selection) -> DeleteResult:
    """Delete selected documents. A selection of everything is rejected, since it is more likely a mistake.

    Raises:
        InvalidRequest: neither ids nor a filter restrict the selection.
    """
    if selection.is_everything:
        raise InvalidRequest(NOTHING_SELECTED, [FieldError("$", NOTHING_SELECTED)])
    return DeleteResult("deleted", collection, await store.delete(collection, selection))
