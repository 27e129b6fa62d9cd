"""The program of a process that extracts texts: `python -m ragstore_gateway.extraction.worker_main MEMORY_BYTES`.

It reads requests from its standard input and writes responses to its standard output. See `protocol` for the messages.
"""

from __future__ import annotations

import math
import signal
import sys
from typing import BinaryIO, Final

import msgspec

from ragstore.kit.errors import ServiceError
from ragstore_gateway.errors import DocumentTooLarge, ExtractionFailed, NoText
from ragstore_gateway.extraction.child_limits import GRACE_SECONDS, own_streams, read_frame, restrict, write_frame
from ragstore_gateway.extraction.dispatch import extract
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.formats import MEDIA_TYPES, NAMES, Format
from ragstore_gateway.extraction.kept_text import read_kept_text
from ragstore_gateway.extraction.parsers.links import page_links
from ragstore_gateway.extraction.protocol import READY, Failure, Request, Response, Success
from ragstore_gateway.extraction.recognition import recognise

_XML_NO_MEMORY: Final = 2
"""libxml2's error code when memory is exhausted."""


def main() -> None:
    """Serve requests until the standard input ends."""
    memory_bytes = int(sys.argv[1])
    requests, responses = own_streams()
    restrict(memory_bytes)
    write_frame(responses, READY)
    while (encoded := read_frame(requests)) is not None:
        request = msgspec.msgpack.decode(encoded, type=Request)
        content = read_frame(requests)
        if content is None:
            return
        # The gateway kills this process earlier. The signal is for a gateway that is stopped or stuck.
        signal.alarm(math.ceil(request.timeout_seconds) + GRACE_SECONDS)
        response = _response(request, content, memory_bytes, responses)
        del content
        try:
            encoded = msgspec.msgpack.encode(response)
        except MemoryError:
            encoded = msgspec.msgpack.encode(_out_of_memory(memory_bytes))
        signal.alarm(0)
        write_frame(responses, encoded)


def _response(request: Request, content: bytes, memory_bytes: int, responses: BinaryIO) -> Response:
    """Extract one text. The format is written as soon as it is recognised."""
    kind: Format | None = None
    try:
        try:
            kind = None if request.kept else recognise(content, request.media_type, request.name)
        finally:
            write_frame(responses, (kind or "").encode())
        if kind is None:
            return Success(read_kept_text(content, request.max_characters))
        return _success(kind, content, request, memory_bytes)
    except ServiceError as error:
        return Failure(error.code, error.detail)
    except MemoryError:
        return _out_of_memory(memory_bytes)
    # Parsers fail on hostile documents with any error, and its message may have content.
    except Exception as error:  # noqa: BLE001
        if getattr(error, "code", None) == _XML_NO_MEMORY:
            return _out_of_memory(memory_bytes)
        name = NAMES[kind] if kind else ""
        if isinstance(error, RecursionError):
            return Failure(ExtractionFailed.code, f"The {name} document is nested too deeply")
        return Failure(ExtractionFailed.code, f"The {name} document is damaged")


def _success(kind: Format, content: bytes, request: Request, memory_bytes: int) -> Success:
    if not (request.links and kind == "html"):
        return Success(extract(kind, content, request, memory_bytes))
    links = page_links(content, request.media_type)
    try:
        return Success(extract(kind, content, request, memory_bytes), links)
    except NoText:
        # A page without a text may lead to others.
        return Success(Extracted("", MEDIA_TYPES[kind]), links)


def _out_of_memory(memory_bytes: int) -> Failure:
    detail = f"The extraction of the document's text needs more than {memory_bytes} bytes of memory"
    return Failure(DocumentTooLarge.code, detail, exhausted=True)


if __name__ == "__main__":
    main()
