"""From the body of a request to many documents, each of which is valid or has its own error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec
from litestar import Request

from ragstore.kit.decoding import NDJSON, NDJSON_NAMES
from ragstore.kit.errors import InvalidRequest, ServiceError, UnsupportedMediaType
from ragstore_gateway.api.forms import MAX_PARTS, MULTIPART, read_form
from ragstore_gateway.api.uploads import EMPTY, Upload, check_upload
from ragstore_gateway.ingestion.names import checked_name
from ragstore_gateway.ingestion.schemas import BatchLine

MAX_DOCUMENTS: Final = MAX_PARTS
"""Maximum number of documents of one request."""

_decode: Final = msgspec.json.Decoder(BatchLine).decode


@dataclass(frozen=True, slots=True)
class BatchUpload:
    """A document of a request with many.

    Attributes:
        name: its name, as it was sent; empty if there is none.
        upload: the document; None if it cannot be accepted.
        error: why it cannot be accepted.
        metadata: its metadata; None if it names none.
    """

    name: str
    upload: Upload | None
    error: ServiceError | None = None
    metadata: Mapping[str, Any] | None = None


async def read_uploads(
    request: Request[Any, Any, Any], max_bytes: int, fill: Callable[[Mapping[str, Any] | None], Mapping[str, Any]]
) -> list[BatchUpload]:
    """Read the documents of a request.

    Args:
        request: the request. Its body is a form with files, or lines of JSON.
        max_bytes: size of the largest document.
        fill: the metadata of a document, from what its line has; it raises `InvalidRequest`.

    Raises:
        InvalidRequest: there are no documents, or too many, or the body is not a form.
        UnsupportedMediaType: the body is neither a form nor lines of JSON.
    """
    media_type = request.content_type[0].strip().lower()
    if media_type == MULTIPART:
        given = [
            BatchUpload(file.name, Upload(file.content, file.media_type, file.name))
            for file in (await read_form(request)).files
        ]
    elif media_type in NDJSON_NAMES:
        given = await asyncio.to_thread(_lines, await request.body())
    else:
        raise UnsupportedMediaType(f"The documents are sent as {MULTIPART} or {NDJSON}")
    if not given:
        raise InvalidRequest(EMPTY)
    if len(given) > MAX_DOCUMENTS:
        raise InvalidRequest(f"A request has at most {MAX_DOCUMENTS} documents")
    return [await _checked(each, max_bytes, fill) for each in given]


async def _checked(
    given: BatchUpload, max_bytes: int, fill: Callable[[Mapping[str, Any] | None], Mapping[str, Any]]
) -> BatchUpload:
    if given.upload is None:
        return given
    try:
        checked_name(given.name)
        await check_upload(given.upload, max_bytes)
        return replace(given, metadata=fill(given.metadata))
    except ServiceError as error:
        return BatchUpload(given.name, None, error)


def _lines(body: bytes) -> list[BatchUpload]:
    return list(_uploads(body.split(b"\n")))


def _uploads(lines: Sequence[bytes]) -> Iterator[BatchUpload]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = _decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            reason = str(error) if isinstance(error, msgspec.ValidationError) else "Not valid JSON"
            yield BatchUpload("", None, InvalidRequest(f"Line {number}: {reason}"))
            continue
        has_text = isinstance(document.text, str)
        if has_text == isinstance(document.content, bytes):
            yield BatchUpload(
                document.document_name, None, InvalidRequest(f"Line {number}: a document has either text or content")
            )
            continue
        content = document.text.encode("utf-8", "surrogatepass") if isinstance(document.text, str) else document.content
        upload = Upload(content or b"", document.content_type.partition(";")[0].strip().lower(), document.document_name)
        metadata = document.metadata if isinstance(document.metadata, dict) else None
        yield BatchUpload(document.document_name, upload, metadata=metadata)
