"""Adds the ids of the request in progress to the requests of httpx clients."""

from __future__ import annotations

import httpx

from ragstore.kit.tracing.spans import outgoing_headers


async def add_ids(request: httpx.Request) -> None:
    """An event hook for requests: their `X-Request-ID` and, with traces, `traceparent`.

    Args:
        request: the request before it is sent.
    """
    request.headers.update(outgoing_headers())
