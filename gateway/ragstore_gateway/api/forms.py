"""`read_form`: the fields and files of a form, parsed in memory.

Litestar's `Request.form` writes a file above 1 MiB to the folder for temporary files, on the event loop. That folder is
64 MiB in the shipped container, and the budget of bytes in flight does not count it. Here, a form needs the memory of
its body a second time, for the time of its parsing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

from litestar import Request
from multipart import MultipartError, MultipartSegment, PushMultipartParser

from ragstore.kit.errors import InvalidRequest
from ragstore.kit.service import WholeBodyRequest

MULTIPART: Final = "multipart/form-data"

MAX_FIELD_BYTES: Final = 64 * 1024
"""Maximum size of a field that is not a file."""

MAX_PARTS: Final = 1000
"""Maximum number of fields and files of a form."""

SLICE_BYTES: Final = 256 * 1024
"""Size of the slices in which bodies are parsed. No call of the parser holds the interpreter's lock for longer."""

INLINE_BYTES: Final = 64 * 1024
"""Size up to which a form is parsed on the event loop."""

_INVALID: Final = f"The body is not a valid {MULTIPART}"


@dataclass(frozen=True, slots=True)
class FormFile:
    """A file of a form.

    Attributes:
        field: name of its field.
        name: its file name.
        media_type: its declared media type without parameters, in lower case; `text/plain` if none is declared.
        content: its bytes.
    """

    field: str
    name: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Form:
    """A form.

    Attributes:
        fields: the fields that are not files, by name. Of several with one name, the first one.
        files: the files, in order.
    """

    fields: Mapping[str, str]
    files: Sequence[FormFile]

    @property
    def names(self) -> set[str]:
        """The names of all fields."""
        return {*self.fields, *(file.field for file in self.files)}


async def read_form(request: Request[Any, Any, Any]) -> Form:
    """Parse the form of a request, and drop its body.

    Raises:
        InvalidRequest: the body is not a form, or a field that is not a file is too large.
    """
    boundary = request.content_type[1].get("boundary", "")
    body = await request.body()
    try:
        if len(body) <= INLINE_BYTES:
            return parse_form(body, boundary)
        return await asyncio.to_thread(parse_form, body, boundary)
    finally:
        if isinstance(request, WholeBodyRequest):
            request.forget_body()


def parse_form(body: bytes, boundary: str) -> Form:
    """Parse a form.

    Args:
        body: the form.
        boundary: separates its parts.

    Raises:
        InvalidRequest: it is not valid, or a field that is not a file is too large.
    """
    fields: dict[str, str] = {}
    files: list[FormFile] = []
    try:
        for segment, content in _parts(body, boundary):
            name = segment.name or ""
            if segment.filename:
                files.append(FormFile(name, segment.filename, segment.content_type or "text/plain", content))
            else:
                fields.setdefault(name, content.decode())
    except (MultipartError, UnicodeDecodeError):
        raise InvalidRequest(_INVALID) from None
    return Form(fields, files)


def _parts(body: bytes, boundary: str) -> Iterator[tuple[MultipartSegment, bytes]]:
    """The parts of a form, each with its content."""
    if not body:
        return
    segment: MultipartSegment | None = None
    content = BytesIO()
    with PushMultipartParser(boundary, max_segment_count=MAX_PARTS) as parser:
        for first in range(0, len(body), SLICE_BYTES):
            for event in parser.parse(body[first : first + SLICE_BYTES]):
                if isinstance(event, MultipartSegment):
                    segment, content = event, BytesIO()
                elif segment is not None and event is not None:
                    content.write(event)
                    _check_field(segment, content.tell())
                elif segment is not None:
                    # `getvalue` returns the buffer itself, without a copy.
                    yield segment, content.getvalue()
                    segment, content = None, BytesIO()


def _check_field(segment: MultipartSegment, size: int) -> None:
    if not segment.filename and size > MAX_FIELD_BYTES:
        raise InvalidRequest.at(f"$.{segment.name}", f"A field that is not a file has at most {MAX_FIELD_BYTES} bytes")
