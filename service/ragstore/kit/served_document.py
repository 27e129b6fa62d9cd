"""Serves the OpenAPI document of a service: it is made once, when it is first requested, and has an `ETag`."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from litestar import Litestar, Request, Response

_MADE: Final = "openapi_document"
"""Key of the application's state: the task that makes the document."""


class _Document(NamedTuple):
    content: bytes
    etag: str


async def served_document(request: Request[Any, Any, Any], make: Callable[[Litestar], str]) -> Response[bytes]:
    """The response to a request for the document: 304 if the caller has it.

    Args:
        make: makes the document of an application, in a thread. The gateway's took 57 ms of the event loop.
    """
    app = request.app
    making = app.state.get(_MADE)
    if making is None:
        making = app.state[_MADE] = asyncio.ensure_future(asyncio.to_thread(_made, make, app))
    # The first caller may leave while others wait for the same task.
    document: _Document = await asyncio.shield(making)
    headers = {"ETag": document.etag}
    if matches_etag(request.headers.get("if-none-match", ""), document.etag):
        return Response(b"", status_code=304, headers=headers)
    return Response(document.content, media_type="application/json", headers=headers)


def _made(make: Callable[[Litestar], str], app: Litestar) -> _Document:
    content = make(app).encode()
    return _Document(content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def matches_etag(condition: str, etag: str) -> bool:
    """Whether `If-None-Match` names an `ETag`. The comparison is weak, as RFC 9110 requires."""
    given = {each.strip().removeprefix("W/") for each in condition.split(",")}
    return "*" in given or etag in given
