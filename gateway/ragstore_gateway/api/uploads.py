"""Reads the uploaded document of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from litestar import Request

from ragstore.kit.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType
from ragstore_gateway.api.forms import MULTIPART, SLICE_BYTES, read_form
from ragstore_gateway.extraction.formats import MEDIA_TYPES
from ragstore_gateway.extraction.kept_text import KEPT_TEXT

ANY: Final = "application/octet-stream"
"""The media type of content whose format is recognised by its bytes or its name."""

ACCEPTED: Final = (
    *MEDIA_TYPES.values(),
    "text/x-markdown",
    "application/xhtml+xml",
    "text/tab-separated-values",
    KEPT_TEXT,
    ANY,
)
EMPTY: Final = "Document content is required"


@dataclass(frozen=True, slots=True)
class Upload:
    """A document, as it was sent.

    Attributes:
        content: its bytes.
        name: its file name, if it has one.
        fields: the fields of its form that are not files.
    """

    content: bytes
    media_type: str
    name: str
    fields: Mapping[str, str] = field(default_factory=dict)


async def read_upload(request: Request[Any, Any, Any], max_bytes: int) -> Upload:
    """Read the document of a request.

    Args:
        request: the request. Its body is the document, or a form with one file.
        max_bytes: size of the largest document.

    Raises:
        BodyTooLarge: the document is too large.
        InvalidRequest: there is no document, or it is empty, or there are several.
        UnsupportedMediaType: documents of this type cannot be ingested.
    """
    media_type = request.content_type[0].strip().lower()
    if media_type == MULTIPART:
        upload = await _file(request)
    else:
        upload = Upload(await request.body(), media_type or "text/plain", "")
    await check_upload(upload, max_bytes)
    return upload


async def check_upload(upload: Upload, max_bytes: int) -> None:
    """Check that a document can be ingested.

    Args:
        upload: the document.
        max_bytes: size of the largest document.

    Raises:
        BodyTooLarge: it is too large.
        InvalidRequest: it is empty.
        UnsupportedMediaType: documents of this type cannot be ingested.
    """
    if upload.media_type not in ACCEPTED:
        raise UnsupportedMediaType(f"Documents have one of the media types {', '.join(ACCEPTED)}, or {MULTIPART}")
    if len(upload.content) > max_bytes:
        raise BodyTooLarge(f"A document must not be larger than {max_bytes} bytes")
    if not upload.content or (
        upload.media_type.startswith("text/") and await asyncio.to_thread(is_blank, upload.content)
    ):
        raise InvalidRequest(EMPTY)


def is_blank(content: bytes) -> bool:
    """Whether a content has white space only. It is searched in slices, and is not copied as a whole."""
    return not any(content[first : first + SLICE_BYTES].strip() for first in range(0, len(content), SLICE_BYTES))


async def _file(request: Request[Any, Any, Any]) -> Upload:
    form = await read_form(request)
    files = form.files
    if len(files) > 1:
        raise InvalidRequest("The form must have one file")
    if not files:
        raise InvalidRequest(EMPTY)
    return Upload(files[0].content, files[0].media_type, files[0].name, form.fields)
