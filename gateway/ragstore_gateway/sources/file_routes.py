"""The routes of the files of upload sources."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final
from urllib.parse import unquote

from litestar import Request, delete, get, post
from litestar.di import NamedDependency
from litestar.params import PathParameter, QueryParameter, SkipValidation
from litestar.types import ControllerRouterHandler

from ragstore.kit.context import record_write
from ragstore.kit.errors import (
    BodyTimeout,
    BodyTooLarge,
    FieldError,
    InvalidRequest,
    UnsupportedMediaType,
)
from ragstore.kit.middleware.bodies import LARGE_BODY
from ragstore.kit.openapi import ERRORS
from ragstore_gateway.api.forms import MULTIPART, read_form
from ragstore_gateway.api.openapi import OPERATION
from ragstore_gateway.configurations.source import UploadSource
from ragstore_gateway.errors import ConfigurationNotFound, DatabaseUnavailable
from ragstore_gateway.keys import READER, WRITER
from ragstore_gateway.sources.assembly import Sources
from ragstore_gateway.sources.errors import NotAnUploadSource, SourceFileNotFound, SourceNotFound, SourceRunning
from ragstore_gateway.sources.file_schemas import SourceFileList, StoredFiles, file_of, rejected_of
from ragstore_gateway.sources.files import NewFile, SourceFiles

SourcesDependency = SkipValidation[NamedDependency[Sources]]
FilesDependency = SkipValidation[NamedDependency[SourceFiles]]

BaseId = Annotated[str, PathParameter(description="Id of the knowledge base.")]
SourceParameter = Annotated[str, PathParameter(description="Name of the source.")]
Index = Annotated[int, QueryParameter(description="Number of the page, from 0.", ge=0, le=1_000_000)]
Limit = Annotated[int, QueryParameter(description="Maximum number of files on the page.", ge=1, le=1000)]

PATH: Final = "/ragstore/rags/{id:str}/sources/{source:str}/files"
MAX_FILES: Final = 100
"""Maximum number of files of a request."""

MAX_MEDIA_TYPE: Final = 255

_ABOVE: Final = re.compile(r"^.*?/sources/[^/]*/files/")
_TYPE: Final = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
_TAGS: Final = ["sources"]
_ERRORS: Final = (ConfigurationNotFound, SourceNotFound, DatabaseUnavailable)
_UPLOAD: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            MULTIPART: {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {
                        "files": {
                            "type": "array",
                            "minItems": 1,
                            "maxItems": MAX_FILES,
                            "items": {"type": "string", "format": "binary"},
                        }
                    },
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
        **LARGE_BODY,
        ERRORS: (*_ERRORS, NotAnUploadSource, BodyTimeout, BodyTooLarge, UnsupportedMediaType),
        OPERATION: _UPLOAD,
    },
    operation_id="uploadSourceFiles",
    summary="Upload files of a source",
    tags=_TAGS,
)
async def upload_source_files(
    request: Request[Any, Any, Any],
    id: BaseId,
    source: SourceParameter,
    sources: SourcesDependency,
    source_files: FilesDependency,
) -> StoredFiles:
    """Store files, which the next run of the source ingests. A file of the same name is replaced.

    Each file is stored or rejected for itself. If none is stored, the response is 400.
    """
    limits = await _limits(sources, id, source)
    stored, rejected = await source_files.store(id, source, limits, await _read(request))
    record_write(f"ragstore/rags/{id}/sources/{source}/files", len(stored))
    if not stored:
        errors = [FieldError(f"$.files[{each.index}]", each.reason) for each in rejected]
        raise InvalidRequest(
            "No file was stored: " + "; ".join(dict.fromkeys(each.reason for each in rejected)), errors
        )
    return StoredFiles([file_of(each) for each in stored], [rejected_of(each) for each in rejected])


@get(
    PATH,
    opt={**READER, ERRORS: (*_ERRORS, NotAnUploadSource)},
    operation_id="listSourceFiles",
    summary="List the files of a source",
    tags=_TAGS,
)
async def list_source_files(
    id: BaseId,
    source: SourceParameter,
    sources: SourcesDependency,
    source_files: FilesDependency,
    index: Index = 0,
    limit: Limit = 20,
) -> SourceFileList:
    """A page of the files of an upload source, by name."""
    await _check(sources, source_files, id, source)
    found, total, size = await source_files.page(id, source, index, limit)
    return SourceFileList([file_of(each) for each in found], total, size)


@delete(
    f"{PATH}/{{name:path}}",
    status_code=204,
    opt={**WRITER, ERRORS: (*_ERRORS, NotAnUploadSource, SourceFileNotFound, SourceRunning)},
    operation_id="deleteSourceFile",
    summary="Delete a file of a source",
    tags=_TAGS,
)
async def delete_source_file(
    request: Request[Any, Any, Any],
    id: BaseId,
    source: SourceParameter,
    name: str,
    sources: SourcesDependency,
    source_files: FilesDependency,
) -> None:
    """Delete a file and its document with its vectors. No search finds it after this response."""
    await _check(sources, source_files, id, source)
    await source_files.delete(id, source, unquote(_ABOVE.sub("", request.scope["raw_path"].decode("latin-1"), count=1)))


ROUTES: Final[list[ControllerRouterHandler]] = [upload_source_files, list_source_files, delete_source_file]
"""The routes of files."""


async def _limits(sources: Sources, id: str, name: str) -> UploadSource:
    """The limits of the files of a source of the configuration."""
    source = await sources.find(id, name)
    if source.type != "upload":
        raise NotAnUploadSource(f"The source {name} is a website; it has no files")
    return source.upload or UploadSource()


async def _check(sources: Sources, files: SourceFiles, id: str, name: str) -> None:
    """Check that there is such a source, or that there are files of a former one."""
    try:
        await _limits(sources, id, name)
    except (SourceNotFound, NotAnUploadSource):
        if not await files.has_any(id, name):
            raise


async def _read(request: Request[Any, Any, Any]) -> list[NewFile]:
    """The files of a form."""
    if request.content_type[0].strip().lower() != MULTIPART:
        raise UnsupportedMediaType(f"Files are uploaded as {MULTIPART}")
    files = (await read_form(request)).files
    if not files:
        raise InvalidRequest.at("$.files", "The form must have at least one file")
    if len(files) > MAX_FILES:
        raise InvalidRequest.at("$.files", f"A request must not have more than {MAX_FILES} files")
    return [NewFile(each.name, _media_type(each.media_type), each.content) for each in files]


def _media_type(declared: str) -> str:
    """A media type; empty if it is none, so that the name and the content decide."""
    return declared if len(declared) <= MAX_MEDIA_TYPE and _TYPE.fullmatch(declared) else ""
