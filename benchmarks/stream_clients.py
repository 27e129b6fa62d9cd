"""Reads streams over raw sockets: one Python client costs less than the gateway that it measures."""

from __future__ import annotations

import asyncio
import json
import re
import time
from itertools import pairwise
from typing import Final
from urllib.parse import urlsplit

_SENT: Final = re.compile(rb'"sent_ns":(\d+)')


async def read_stream(url: str, model: str) -> tuple[int, bool, list[float]]:
    """Read one stream.

    Args:
        url: base URL, which ends in `/v1`.

    Returns:
        The number of events, whether the stream was complete, and the delay of each event in milliseconds.
    """
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "What is tea?"}]})
    head = f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    received = bytearray()
    delays: list[float] = []
    searched = 0
    while not received.endswith(b"0\r\n\r\n"):
        data = await reader.read(65536)
        if not data:
            break
        now = time.monotonic_ns()
        received += data
        for match in _SENT.finditer(received, searched):
            delays.append((now - int(match[1])) / 1e6)
            searched = match.end()
    writer.close()
    return len(delays), b"data: [DONE]" in received, delays


async def read_streams(url: str, model: str, count: int) -> list[tuple[int, bool, list[float]]]:
    """Read streams concurrently."""
    return await asyncio.gather(*(read_stream(url, model) for _ in range(count)))


def jitter(delays: list[float]) -> list[float]:
    """How much each gap between two events differs from the gap with which they were sent, in milliseconds."""
    return [abs(later - earlier) for earlier, later in pairwise(delays)]


def percentile(values: list[float], percent: float) -> float:
    """A percentile of some values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
