"""The bodies of the routes for files of sources."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from ragstore_gateway.sources.files import FileStatus, Rejection, StoredFile


class SourceFile(Struct, frozen=True, rename="camel"):
    """A file of an upload source."""

    name: Annotated[str, Meta(description="Its name, which identifies it.")]
    media_type: Annotated[str, Meta(description="Its media type, as declared; may be empty.")]
    bytes: Annotated[int, Meta(ge=0, description="Its size.")]
    hash: Annotated[str, Meta(description="SHA-256 of its media type and its content.")]
    status: Annotated[
        FileStatus,
        Meta(
            description="`indexed`: searches find this content. `changed`: they find an earlier one until the next "
            "run. `waiting`: no run has ingested it yet."
        ),
    ]
    uploaded_on: Annotated[datetime, Meta(description="When it was uploaded last.")]


class RejectedFile(Struct, frozen=True, rename="camel"):
    """A file that was not stored."""

    file_name: Annotated[str, Meta(description="Its name.")]
    reason: Annotated[str, Meta(description="Why it was not stored.")]


class StoredFiles(Struct, frozen=True):
    """The result of an upload."""

    stored: Annotated[list[SourceFile], Meta(description="The files that are stored. The next run ingests them.")]
    rejected: Annotated[list[RejectedFile], Meta(description="The files that are not.")]


class SourceFileList(Struct, frozen=True, rename="camel"):
    """A page of the files of a source, by name."""

    files: list[SourceFile]
    total: Annotated[int, Meta(ge=0, description="Number of its files.")]
    total_bytes: Annotated[int, Meta(ge=0, description="Size of all its files.")]


def file_of(file: StoredFile) -> SourceFile:
    """A file of a list."""
    return SourceFile(file.name, file.media_type, file.bytes, file.content_hash, file.status, file.uploaded_on)


def rejected_of(rejection: Rejection) -> RejectedFile:
    """A rejected file of a response."""
    return RejectedFile(rejection.name[:255], rejection.reason)
