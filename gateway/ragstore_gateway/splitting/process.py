"""The program of a process that splits texts: `python -m ragstore_gateway.splitting.process MEMORY_BYTES`.

It reads requests from its standard input and writes responses to its standard output. See `protocol` for the messages.
"""

from __future__ import annotations

import math
import signal
import sys

import msgspec

from ragstore_gateway.extraction.child_limits import GRACE_SECONDS, own_streams, read_frame, restrict, write_frame
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.extraction.protocol import READY
from ragstore_gateway.splitting.packing import ChunkLimit
from ragstore_gateway.splitting.protocol import SplitFailure, SplitRequest, SplitResponse, SplitSuccess
from ragstore_gateway.splitting.strategies import chunks_of


def main() -> None:
    """Serve requests until the standard input ends."""
    requests, responses = own_streams()
    restrict(int(sys.argv[1]))
    write_frame(responses, READY)
    while (encoded := read_frame(requests)) is not None:
        request = msgspec.msgpack.decode(encoded, type=SplitRequest)
        content = read_frame(requests)
        if content is None:
            return
        # The gateway kills this process earlier. The signal is for a gateway that is stopped or stuck.
        signal.alarm(math.ceil(request.timeout_seconds) + GRACE_SECONDS)
        response = msgspec.msgpack.encode(_responses(request, content))
        signal.alarm(0)
        write_frame(responses, response)


def _responses(request: SplitRequest, content: bytes) -> list[SplitResponse]:
    try:
        texts = msgspec.msgpack.decode(content, type=list[msgspec.Raw])
    except MemoryError:
        return [SplitFailure("memory")]
    return [_response(request, text) for text in texts]


def _response(request: SplitRequest, content: msgspec.Raw) -> SplitResponse:
    try:
        extracted = msgspec.msgpack.decode(content, type=Extracted)
        return SplitSuccess([chunk.span for chunk in chunks_of(extracted, request.chunking, request.max_chunks)])
    except ChunkLimit:
        return SplitFailure("chunks")
    except MemoryError:
        return SplitFailure("memory")
    except Exception:  # noqa: BLE001  # its message may have content, and the process must not end
        return SplitFailure("error")


if __name__ == "__main__":
    main()
