"""The program of a process that extracts texts: `python -m ragstore_gateway.extraction.process MEMORY_BYTES`.

It reads requests from its standard input and writes responses to its standard output. See `protocol` for the messages.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import resource
import signal
import sys
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from ragstore.kit.errors import ServiceError
from ragstore_gateway.errors import DocumentTooLarge, ExtractionFailed, NoText
from ragstore_gateway.extraction.dispatch import extract
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.formats import MEDIA_TYPES, NAMES, Format
from ragstore_gateway.extraction.parsers.links import page_links
from ragstore_gateway.extraction.protocol import LENGTH, READY, Failure, Request, Response, Success
from ragstore_gateway.extraction.recognition import recognise

_SET_PARENT_DEATH_SIGNAL: Final = 1
_NO_NEW_PRIVILEGES: Final = 38
_XML_NO_MEMORY: Final = 2
"""libxml2's error code when memory is exhausted."""

_GRACE_SECONDS: Final = 2


def main() -> None:
    """Serve requests until the standard input ends."""
    memory_bytes = int(sys.argv[1])
    requests, responses = _own_streams()
    _restrict(memory_bytes)
    _write(responses, READY)
    while (encoded := _read(requests)) is not None:
        request = msgspec.msgpack.decode(encoded, type=Request)
        content = _read(requests)
        if content is None:
            return
        # The gateway kills this process earlier. The signal is for a gateway that is stopped or stuck.
        signal.alarm(math.ceil(request.timeout_seconds) + _GRACE_SECONDS)
        response = _response(request, content, memory_bytes, responses)
        del content
        try:
            encoded = msgspec.msgpack.encode(response)
        except MemoryError:
            encoded = msgspec.msgpack.encode(_out_of_memory(memory_bytes))
        signal.alarm(0)
        _write(responses, encoded)


def _response(request: Request, content: bytes, memory_bytes: int, responses: BinaryIO) -> Response:
    """Extract one text. The format is written as soon as it is recognised."""
    kind: Format | None = None
    try:
        try:
            kind = recognise(content, request.media_type, request.name)
        finally:
            _write(responses, (kind or "").encode())
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


def _own_streams() -> tuple[BinaryIO, BinaryIO]:
    """The streams of the messages. Libraries read and print on the null device."""
    requests = os.fdopen(os.dup(0), "rb")
    responses = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    return requests, responses


def _restrict(memory_bytes: int) -> None:
    """Limit what a hostile document can do, and end when the gateway ends, however it ends."""
    parent = os.getppid()
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(0)
        # If the container is out of memory, the kernel kills this process rather than the gateway.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    # No file is written; a core file would have content.
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read(stream: BinaryIO) -> bytes | None:
    """The next frame; None at the end."""
    length = stream.read(LENGTH.size)
    if len(length) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(length)
    content = stream.read(size)
    return content if len(content) == size else None


def _write(stream: BinaryIO, content: bytes) -> None:
    stream.write(LENGTH.pack(len(content)))
    stream.write(content)
    stream.flush()


if __name__ == "__main__":
    main()
