"""The state of a connection's socket that the event loop does not know: unsent bytes, and an end that is not read."""

from __future__ import annotations

import asyncio
import select
import sys
from contextlib import suppress
from typing import Final

if sys.platform != "win32":
    import fcntl
    import termios

CLOSED_BY_CALLER: Final = getattr(select, "POLLRDHUP", 0)
"""Event of a socket whose other end was closed; 0 where the operating system has none."""


def unsent_bytes(transport: asyncio.Transport) -> int:
    """Bytes in the operating system's send buffer, where it reports them.

    The buffer holds megabytes, and accepts more only when a third was read: without these bytes a slow caller would
    look like one that does not read.

    Args:
        transport: the transport of the connection.
    """
    unsent = bytearray(4)
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, unsent)
    return int.from_bytes(unsent, sys.byteorder)


def has_caller_left(transport: asyncio.Transport) -> bool:
    """Whether a connection is closed, or its caller has closed its side, also while its input is not read.

    Args:
        transport: the transport of the connection.
    """
    if transport.is_closing():
        return True
    if not CLOSED_BY_CALLER:
        return False
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), CLOSED_BY_CALLER)
    return bool(poll.poll(0))
