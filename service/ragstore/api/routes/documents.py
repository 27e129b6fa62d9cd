"""Routes on documents."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import Controller, Request, Response, delete, get, post, put
from litestar.di import NamedDependency
from litestar.exceptions import ValidationException
from litestar.params import JSONBody, PathParameter
from litestar.types.internal_types import PathParameterDefinition

from ragstore.api.batch_dto import BatchDTO
from ragstore.api.decode_documents import REQUIRED
from ragstore.api.media_types import Decoded
from ragstore.api.parameters import (
    MAX_OFFSET,
    MAX_PAGE,
    CollectionName,
    Ids,
    Include,
    Limit,
    Offset,
    StoreDependency,
    Total,
    Where,
    WhereDocument,
    checked_ids,
    checked_query_string,
)
from ragstore.api.roles import READER, WRITER
from ragstore.api.schemas import CollectionEmptied, DeleteBody, DocumentsDeleted, DocumentsWritten, FilterBody
from ragstore.errors import DocumentNotFound, InvalidDocuments
from ragstore.kit.errors import FieldError, InvalidRequest
from ragstore.kit.problems import from_service_error, from_validation_exception, invalid_parameters
from ragstore.model.documents import EVERYTHING, Batch, DocumentList, DocumentOut, Selection, Write
from ragstore.model.filters.condition import Condition
from ragstore.model.numbers import whole_number
from ragstore.operations.list_documents import Page, list_page, to_documents
from ragstore.store.protocol import Store, write_batch

NOTHING_CHOSEN = "Either 'ids' or 'where' must be given"


def documents_required(request: Request[Any, Any, Any], error: ValidationException) -> Response[Any]:
    """An empty body holds no documents either; it never reaches the decoder."""
    if any(entry.get("key") == "data" for entry in invalid_parameters(error)):
        missing = InvalidDocuments(REQUIRED, [FieldError("$.documents", REQUIRED)])
        return from_service_error(request, missing)
    return from_validation_exception(request, error)


def read_operation(handler: object, method: object, path: list[str | PathParameterDefinition]) -> str:
    """The OpenAPI operation of reading a document, which has a path of its own for each claimed word."""
    return f"getDocumentNamed{path[-1].title()}" if isinstance(path[-1], str) else "getDocument"


class DocumentsController(Controller):
    """Write, list, read and delete documents."""

    path = "/collections/{collection_name:str}/documents"
    tags = ("documents",)
    opt = READER
    before_request = staticmethod(checked_query_string)

    @post(
        dto=BatchDTO,
        return_dto=None,
        exception_handlers={ValidationException: documents_required},
        opt=WRITER,
        operation_id="addDocuments",
        summary="Add documents",
    )
    async def add(self, store: StoreDependency, collection: CollectionName, data: JSONBody[Batch]) -> DocumentsWritten:
        """Add documents with their embeddings: all of them, or none.

        An id that is taken is answered with 409 and changes nothing. Documents without an id get one.
        """
        await write_batch(store, collection, Write("add", data))
        return DocumentsWritten("added", collection, len(data), data.ids)

    @put(
        dto=BatchDTO,
        return_dto=None,
        exception_handlers={ValidationException: documents_required},
        opt=WRITER,
        operation_id="upsertDocuments",
        summary="Add or replace documents",
    )
    async def upsert(
        self, store: StoreDependency, collection: CollectionName, data: JSONBody[Batch]
    ) -> DocumentsWritten:
        """Add documents, or replace whole those whose ids are taken: all of them, or none.

        Doing it again changes nothing more, so this is the call to retry.
        """
        await write_batch(store, collection, Write("upsert", data))
        return DocumentsWritten("upserted", collection, len(data), data.ids)

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
        total: Total = True,
    ) -> DocumentList:
        """List documents in insertion order, with the exact number of all that match."""
        selection = Selection(checked_ids(ids), Condition.parse_text(where, where_document))
        page = Page(min(limit, MAX_PAGE), min(offset, MAX_OFFSET), bool(include), total)
        return await list_page(store, collection, selection, page)

    @post(
        "/filter",
        status_code=200,
        dto=Decoded[FilterBody],
        return_dto=None,
        operation_id="filterDocuments",
        summary="List documents by a filter in the body",
    )
    async def filter_matching(
        self, store: StoreDependency, collection: CollectionName, data: JSONBody[FilterBody]
    ) -> DocumentList:
        """List documents as GET does, for filters too long for a URL."""
        selection = Selection(checked_ids(data.ids), Condition.parse(data.where, data.where_document))
        page = Page(
            min(whole_number(data.limit, "$.limit"), MAX_PAGE),
            min(whole_number(data.offset, "$.offset"), MAX_OFFSET),
            bool(data.include),
            data.total,
        )
        return await list_page(store, collection, selection, page)

    # Ids may be words that other routes claim; without the further paths GET on them would be a 405.
    @get(
        ["/{document_id:path}", "/all", "/delete", "/filter", "/stream"],
        operation_id=read_operation,
        summary="Read a document",
    )
    async def read(
        self,
        store: StoreDependency,
        collection: CollectionName,
        wanted_id: NamedDependency[str],
        document_id: Annotated[
            str, PathParameter(description="The document's id, percent-encoded; it may hold slashes.")
        ] = "",
        include: Include = None,
    ) -> DocumentOut:
        """Read one document."""
        found = await store.get(collection, Selection(ids=(wanted_id,)), limit=1, with_embeddings=bool(include))
        for document in to_documents(found):
            return document
        raise DocumentNotFound(collection, wanted_id)

    @delete(status_code=200, opt=WRITER, operation_id="deleteDocuments", summary="Delete documents")
    async def remove(
        self, store: StoreDependency, collection: CollectionName, ids: Ids = None, where: Where = None
    ) -> DocumentsDeleted:
        """Delete the documents with these ids that the filter selects. One of the two must be given."""
        condition = Condition.parse_text(where)
        return await _deleted(store, collection, Selection(checked_ids(ids), condition))

    @post(
        "/delete",
        status_code=200,
        dto=Decoded[DeleteBody],
        return_dto=None,
        opt=WRITER,
        operation_id="deleteDocumentsByBody",
        summary="Delete documents by a filter in the body",
    )
    async def remove_by_body(
        self, store: StoreDependency, collection: CollectionName, data: JSONBody[DeleteBody]
    ) -> DocumentsDeleted:
        """Delete documents as DELETE does, for ids and filters too long for a URL."""
        selection = Selection(checked_ids(data.ids), Condition.parse(data.where))
        return await _deleted(store, collection, selection)

    @delete("/all", status_code=200, opt=WRITER, operation_id="emptyCollection", summary="Delete all documents")
    async def empty(self, store: StoreDependency, collection: CollectionName) -> CollectionEmptied:
        """Delete all documents. The collection stays, with its metadata, dimension and distance."""
        return CollectionEmptied("emptied", collection, await store.delete(collection, EVERYTHING))


async def _deleted(store: Store, collection: str, selection: Selection) -> DocumentsDeleted:
    """Delete what is chosen; a filter that chooses everything chooses nothing here."""
    if selection.is_everything:
        raise InvalidRequest(NOTHING_CHOSEN, [FieldError("$", NOTHING_CHOSEN)])
    return DocumentsDeleted("deleted", collection, await store.delete(collection, selection))
