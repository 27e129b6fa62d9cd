"""The routes of uploads in parts."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from litestar import Request, post
from litestar.params import PathParameter
from litestar.types import ControllerRouterHandler

from ragstore.kit.context import record_write
from ragstore.kit.errors import BodyTimeout, BodyTooLarge
from ragstore.kit.middleware.bodies import LARGE_BODY
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.api.forms import MULTIPART
from ragstore_gateway.api.openapi import OPERATION, body_of
from ragstore_gateway.errors import DatabaseUnavailable, FileNotFound, FileStorageFull, UploadConflict
from ragstore_gateway.keys import WRITER, key_name_of, tenant_of, visible_bases
from ragstore_gateway.openai_vector_stores.file_forms import read_part
from ragstore_gateway.openai_vector_stores.route_parts import Api, read_body
from ragstore_gateway.openai_vector_stores.schemas import NewUpload, UploadCompletion, UploadObject, UploadPartObject
from ragstore_gateway.tenants.errors import TenantBytesExceeded

PATH: Final = "/v1/uploads"
TAGS: Final = ["vector stores"]

UploadId: TypeAlias = Annotated[str, PathParameter(description="Id of the upload.")]

_PART: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART: {
                "schema": {
                    "type": "object",
                    "required": ["data"],
                    "properties": {"data": {"type": "string", "format": "binary", "minLength": 1}},
                }
            }
        },
    }
}


@post(
    PATH,
    status_code=200,
    opt={
        **WRITER,
        ERRORS: (DatabaseUnavailable, FileStorageFull, TenantBytesExceeded, BodyTooLarge),
        **body_of(NewUpload),
    },
    operation_id="createUpload",
    summary="Begin an upload in parts",
    tags=TAGS,
)
async def create_upload(request: Request[Any, Any, Any], vector_stores_api: Api) -> UploadObject:
    """Begin an upload, which must be completed within an hour."""
    body = await read_body(request, NewUpload)
    created = await vector_stores_api.uploads.create(body, key_name_of(request.scope), tenant_of(request.scope))
    record_write(f"v1/uploads/{created.id}")
    return created


@post(
    f"{PATH}/{{upload_id:str}}/parts",
    status_code=200,
    opt={
        **WRITER,
        **LARGE_BODY,
        ERRORS: (
            DatabaseUnavailable,
            FileNotFound,
            FileStorageFull,
            TenantBytesExceeded,
            UploadConflict,
            BodyTimeout,
            BodyTooLarge,
        ),
        OPERATION: _PART,
    },
    operation_id="createUploadPart",
    summary="Upload a part",
    tags=TAGS,
)
async def create_upload_part(
    request: Request[Any, Any, Any], upload_id: UploadId, vector_stores_api: Api
) -> UploadPartObject:
    """Store a part. Parts may be sent concurrently; the completion has their order."""
    content = await read_part(request)
    return await vector_stores_api.uploads.add_part(upload_id, content, _caller(request))


@post(
    f"{PATH}/{{upload_id:str}}/complete",
    status_code=200,
    opt={
        **WRITER,
        ERRORS: (DatabaseUnavailable, FileNotFound, FileStorageFull, UploadConflict),
        **body_of(UploadCompletion),
    },
    operation_id="completeUpload",
    summary="Complete an upload",
    tags=TAGS,
)
async def complete_upload(request: Request[Any, Any, Any], upload_id: UploadId, vector_stores_api: Api) -> UploadObject:
    """Make a file of the parts, to be attached to vector stores."""
    body = await read_body(request, UploadCompletion)
    completed = await vector_stores_api.uploads.complete(upload_id, body, _caller(request))
    record_write(f"v1/uploads/{upload_id}")
    return completed


@post(
    f"{PATH}/{{upload_id:str}}/cancel",
    status_code=200,
    opt={**WRITER, ERRORS: (DatabaseUnavailable, FileNotFound, UploadConflict)},
    operation_id="cancelUpload",
    summary="Cancel an upload",
    tags=TAGS,
)
async def cancel_upload(request: Request[Any, Any, Any], upload_id: UploadId, vector_stores_api: Api) -> UploadObject:
    """End an upload, and delete its parts."""
    cancelled = await vector_stores_api.uploads.cancel(upload_id, _caller(request))
    record_write(f"v1/uploads/{upload_id}")
    return cancelled


def _caller(request: Request[Any, Any, Any]) -> str | None:
    """The key to whose uploads a request is limited; None for a key that is not limited to some knowledge bases."""
    return None if visible_bases(request.scope).matches_all else key_name_of(request.scope)


ROUTES: Final[list[ControllerRouterHandler]] = [create_upload, create_upload_part, complete_upload, cancel_upload]
"""The routes of uploads in parts."""
