"""The routes of files: uploaded files, files of a vector store, and batches of them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, cast
from urllib.parse import quote

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.params import QueryParameter
from litestar.types import ControllerRouterHandler

from ragstore.kit.byte_budget import reserve
from ragstore.kit.context import record_write
from ragstore.kit.errors import BodyTimeout, BodyTooLarge
from ragstore.kit.middleware.bodies import LARGE_BODY
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.api.openapi import OPERATION, body_of
from ragstore_gateway.api.piecewise import piecewise, raw_text
from ragstore_gateway.errors import DatabaseUnavailable, DocumentNotFound, FileNotFound, FileStorageFull, QueueFull
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.keys import READER, WRITER, key_name_of, tenant_of
from ragstore_gateway.openai_vector_stores.batches import files_of
from ragstore_gateway.openai_vector_stores.file_forms import UPLOAD, read_file
from ragstore_gateway.openai_vector_stores.files import file_object
from ragstore_gateway.openai_vector_stores.pages import (
    MAX_FILE_PAGE,
    AfterParameter,
    BeforeParameter,
    LimitParameter,
    OrderParameter,
    PageQuery,
    ends,
)
from ragstore_gateway.openai_vector_stores.route_parts import (
    CONTENT_ERRORS,
    FILE_ERRORS,
    Api,
    BatchId,
    FileId,
    StateFilter,
    StoreId,
    filled,
    read_body,
    visible_files,
)
from ragstore_gateway.openai_vector_stores.schemas import (
    FileAttributes,
    FileBatchObject,
    FileContentPage,
    FileDeleted,
    FileList,
    FileObject,
    NewFileBatch,
    NewVectorStoreFile,
    TextContent,
    VectorStoreFileDeleted,
    VectorStoreFileList,
    VectorStoreFileObject,
)
from ragstore_gateway.tenants.errors import TenantBytesExceeded, TenantDocumentsExceeded

FILES: Final = "/v1/files"
STORE_FILES: Final = "/v1/vector_stores/{store_id:str}/files"
BATCHES: Final = "/v1/vector_stores/{store_id:str}/file_batches"
TAGS: Final = ["vector stores"]

_CONTENT: Final = {
    "responses": {
        "200": {
            "description": "The content.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    }
}


@post(
    FILES,
    status_code=200,
    opt={
        **WRITER,
        **LARGE_BODY,
        ERRORS: (DatabaseUnavailable, FileStorageFull, TenantBytesExceeded, BodyTimeout, BodyTooLarge),
        OPERATION: UPLOAD,
    },
    operation_id="createFile",
    summary="Upload a file",
    tags=TAGS,
)
async def create_file(request: Request[Any, Any, Any], vector_stores_api: Api) -> FileObject:
    """Store a file, to be attached to vector stores."""
    file = await read_file(request, vector_stores_api.max_file_bytes)
    created = await vector_stores_api.files.create(file, key_name_of(request.scope), tenant_of(request.scope))
    record_write(f"v1/files/{created.id}")
    return created


@get(
    FILES,
    opt={**WRITER, ERRORS: (DatabaseUnavailable, FileNotFound)},
    operation_id="listFiles",
    summary="List files",
    tags=TAGS,
)
async def list_files(
    request: Request[Any, Any, Any],
    vector_stores_api: Api,
    purpose: Annotated[str, QueryParameter(max_length=32, description="Purpose of the files.")] = "",
    limit: Annotated[
        int, QueryParameter(ge=1, le=MAX_FILE_PAGE, description="Maximum number of files on the page.")
    ] = MAX_FILE_PAGE,
    order: OrderParameter = "desc",
    after: AfterParameter = "",
) -> FileList:
    """A page of the uploaded files."""
    visible = await visible_files(request, vector_stores_api)
    found, has_more = await vector_stores_api.files.page(PageQuery(limit, order, after), purpose, visible)
    return FileList(found, *ends(found), has_more)


@get(
    f"{FILES}/{{file_id:str}}",
    opt={**WRITER, ERRORS: (DatabaseUnavailable, FileNotFound)},
    operation_id="getFile",
    summary="Read a file's state",
    tags=TAGS,
)
async def get_file(request: Request[Any, Any, Any], file_id: FileId, vector_stores_api: Api) -> FileObject:
    """An uploaded file, without its content."""
    await vector_stores_api.files.check_visible([file_id], await visible_files(request, vector_stores_api))
    return file_object(await vector_stores_api.files.read(file_id))


@get(
    f"{FILES}/{{file_id:str}}/content",
    opt={**WRITER, ERRORS: (DatabaseUnavailable, FileNotFound), OPERATION: _CONTENT},
    operation_id="getFileContent",
    summary="Download a file",
    tags=TAGS,
)
async def get_file_content(request: Request[Any, Any, Any], file_id: FileId, vector_stores_api: Api) -> Response[bytes]:
    """The content of an uploaded file, as it was uploaded."""
    await vector_stores_api.files.check_visible([file_id], await visible_files(request, vector_stores_api))
    # Before it is read. An unread download keeps its room until its caller is disconnected.
    await reserve((await vector_stores_api.files.read(file_id)).size)
    row = await vector_stores_api.files.read(file_id, content=True)
    disposition = f"attachment; filename*=UTF-8''{quote(row.filename, safe='')}"
    # As an attachment without a type: a browser shows no page that a caller uploaded.
    headers = {"Content-Disposition": disposition, "X-Content-Type-Options": "nosniff"}
    return piecewise(bytes, [row.content], media_type="application/octet-stream", headers=headers)


@delete(
    f"{FILES}/{{file_id:str}}",
    status_code=200,
    opt={**WRITER, ERRORS: (DatabaseUnavailable, FileNotFound, DocumentNotFound)},
    operation_id="deleteFile",
    summary="Delete a file",
    tags=TAGS,
)
async def delete_file(request: Request[Any, Any, Any], file_id: FileId, vector_stores_api: Api) -> FileDeleted:
    """Delete a file, and remove it from all vector stores.

    A key that is limited to some knowledge bases removes it from these. It deletes the file itself only if it has
    uploaded it.
    """
    visible = await visible_files(request, vector_stores_api)
    await vector_stores_api.files.check_visible([file_id], visible)
    await vector_stores_api.files.read(file_id)
    await vector_stores_api.store_files.delete_everywhere(file_id, None if visible is None else visible.bases)
    await vector_stores_api.files.delete(file_id, visible)
    return FileDeleted(file_id)


@post(
    STORE_FILES,
    status_code=200,
    opt={
        **WRITER,
        ERRORS: (*FILE_ERRORS, QueueFull, TenantDocumentsExceeded, TenantBytesExceeded),
        **body_of(NewVectorStoreFile),
    },
    operation_id="createVectorStoreFile",
    summary="Attach a file to a vector store",
    tags=TAGS,
)
async def create_vector_store_file(
    request: Request[Any, Any, Any], store_id: StoreId, vector_stores_api: Api
) -> VectorStoreFileObject:
    """Ingest an uploaded file into the knowledge base."""
    body = filled(await read_body(request, NewVectorStoreFile), request, vector_stores_api)
    record_write(f"v1/vector_stores/{store_id}/files/{body.file_id}", 1)
    await vector_stores_api.files.check_visible([body.file_id], await visible_files(request, vector_stores_api))
    await vector_stores_api.store_files.attach(await vector_stores_api.bases.read(store_id), body)
    return await vector_stores_api.store_files.read(store_id, body.file_id)


@get(
    STORE_FILES,
    opt={**READER, ERRORS: FILE_ERRORS},
    operation_id="listVectorStoreFiles",
    summary="List the files of a vector store",
    tags=TAGS,
)
async def list_vector_store_files(
    store_id: StoreId,
    vector_stores_api: Api,
    file_state: StateFilter = None,
    limit: LimitParameter = 20,
    order: OrderParameter = "desc",
    after: AfterParameter = "",
    before: BeforeParameter = "",
) -> VectorStoreFileList:
    """A page of the documents of the knowledge base, including documents that were not uploaded as files."""
    page = PageQuery(limit, order, after, before)
    found, has_more = await vector_stores_api.store_files.page(store_id, page, file_state)
    return VectorStoreFileList(found, *ends(found), has_more)


@get(
    f"{STORE_FILES}/{{file_id:str}}",
    opt={**READER, ERRORS: FILE_ERRORS},
    operation_id="getVectorStoreFile",
    summary="Read a file's state in a vector store",
    tags=TAGS,
)
async def get_vector_store_file(store_id: StoreId, file_id: FileId, vector_stores_api: Api) -> VectorStoreFileObject:
    """A file of a vector store."""
    return await vector_stores_api.store_files.read(store_id, file_id)


@post(
    f"{STORE_FILES}/{{file_id:str}}",
    status_code=200,
    opt={**WRITER, ERRORS: FILE_ERRORS, **body_of(FileAttributes)},
    operation_id="updateVectorStoreFile",
    summary="Change a file's attributes",
    tags=TAGS,
)
async def update_vector_store_file(
    request: Request[Any, Any, Any], store_id: StoreId, file_id: FileId, vector_stores_api: Api
) -> VectorStoreFileObject:
    """Replace the attributes of a file. Searches filter by the new ones from then on.

    Filters of bases and assistants do when the chunks have been written again; until then, the file is `in_progress`.
    """
    body = filled(await read_body(request, FileAttributes), request, vector_stores_api)
    await vector_stores_api.store_files.update(store_id, file_id, body.attributes or {})
    return await vector_stores_api.store_files.read(store_id, file_id)


@delete(
    f"{STORE_FILES}/{{file_id:str}}",
    status_code=200,
    opt={**WRITER, ERRORS: CONTENT_ERRORS},
    operation_id="deleteVectorStoreFile",
    summary="Remove a file from a vector store",
    tags=TAGS,
)
async def delete_vector_store_file(
    store_id: StoreId, file_id: FileId, vector_stores_api: Api
) -> VectorStoreFileDeleted:
    """Delete the document with its vectors. No search finds it after this response. The uploaded file stays."""
    await vector_stores_api.store_files.delete(store_id, file_id)
    return VectorStoreFileDeleted(file_id)


@get(
    f"{STORE_FILES}/{{file_id:str}}/content",
    opt={**WRITER, ERRORS: CONTENT_ERRORS},
    operation_id="getVectorStoreFileContent",
    summary="Read the text of a file",
    tags=TAGS,
)
async def get_vector_store_file_content(
    store_id: StoreId, file_id: FileId, vector_stores_api: Api
) -> Response[FileContentPage]:
    """The extracted text of a file whose ingestion has completed."""
    kept = await vector_stores_api.store_files.kept_text(store_id, file_id)
    return piecewise(FileContentPage, [await asyncio.to_thread(_content_page, kept)])


def _content_page(kept: bytes) -> bytes:
    """A `FileContentPage`, encoded.

    Args:
        kept: an `Extracted` as MessagePack.
    """
    text = raw_text(msgspec.msgpack.decode(kept, type=Extracted).text)
    return msgspec.json.encode(FileContentPage([TextContent(cast("str", text))]))


@post(
    BATCHES,
    status_code=200,
    opt={**WRITER, ERRORS: FILE_ERRORS, **body_of(NewFileBatch)},
    operation_id="createVectorStoreFileBatch",
    summary="Attach files to a vector store",
    tags=TAGS,
)
async def create_file_batch(
    request: Request[Any, Any, Any], store_id: StoreId, vector_stores_api: Api
) -> FileBatchObject:
    """Ingest uploaded files. One that cannot be ingested does not affect the others."""
    body = filled(await read_body(request, NewFileBatch), request, vector_stores_api)
    if body.files:
        files = [
            filled(each, request, vector_stores_api, f"$.files[{index}].attributes")
            for index, each in enumerate(body.files)
        ]
        body = msgspec.structs.replace(body, files=files)
    file_ids = [each.file_id for each in files_of(body)]
    await vector_stores_api.files.check_visible(file_ids, await visible_files(request, vector_stores_api))
    record_write(f"v1/vector_stores/{store_id}/file_batches", len(file_ids))
    created = await vector_stores_api.batches.create(store_id, body)
    record_write(f"v1/vector_stores/{store_id}/file_batches/{created.id}", len(file_ids))
    return created


@get(
    f"{BATCHES}/{{batch_id:str}}",
    opt={**READER, ERRORS: FILE_ERRORS},
    operation_id="getVectorStoreFileBatch",
    summary="Read a batch's state",
    tags=TAGS,
)
async def get_file_batch(store_id: StoreId, batch_id: BatchId, vector_stores_api: Api) -> FileBatchObject:
    """The state of files that were attached with one call."""
    return await vector_stores_api.batches.read(store_id, batch_id)


@post(
    f"{BATCHES}/{{batch_id:str}}/cancel",
    status_code=200,
    opt={**WRITER, ERRORS: FILE_ERRORS},
    operation_id="cancelVectorStoreFileBatch",
    summary="Cancel a batch",
    tags=TAGS,
)
async def cancel_file_batch(store_id: StoreId, batch_id: BatchId, vector_stores_api: Api) -> FileBatchObject:
    """Cancel the ingestions of a batch that have not ended."""
    await vector_stores_api.batches.cancel(store_id, batch_id)
    return await vector_stores_api.batches.read(store_id, batch_id)


@get(
    f"{BATCHES}/{{batch_id:str}}/files",
    opt={**READER, ERRORS: FILE_ERRORS},
    operation_id="listVectorStoreFileBatchFiles",
    summary="List the files of a batch",
    tags=TAGS,
)
async def list_file_batch_files(
    store_id: StoreId,
    batch_id: BatchId,
    vector_stores_api: Api,
    file_state: StateFilter = None,
    limit: LimitParameter = 20,
    order: OrderParameter = "desc",
    after: AfterParameter = "",
    before: BeforeParameter = "",
) -> VectorStoreFileList:
    """A page of the files of a batch."""
    page = PageQuery(limit, order, after, before)
    found, has_more = await vector_stores_api.batches.page(store_id, batch_id, page, file_state)
    return VectorStoreFileList(found, *ends(found), has_more)


ROUTES: Final[list[ControllerRouterHandler]] = [
    create_file,
    list_files,
    get_file,
    get_file_content,
    delete_file,
    create_vector_store_file,
    list_vector_store_files,
    get_vector_store_file,
    update_vector_store_file,
    delete_vector_store_file,
    get_vector_store_file_content,
    create_file_batch,
    get_file_batch,
    cancel_file_batch,
    list_file_batch_files,
]
"""The routes of files."""
