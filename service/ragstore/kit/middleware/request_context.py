"""What wraps the application: paths as they were sent, request ids, timings and the access log.

These stand outside Litestar so that they also cover what it answers before it finds a route.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, Final
from uuid import uuid4

import structlog
from litestar.enums import ScopeType
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from ragstore.kit.auth.keys import Key
from ragstore.kit.context import AuditRecord, new_audit_record, new_clock
from ragstore.kit.logging import AUDIT
from ragstore.kit.middleware.security_headers import ALWAYS, STRICT

REQUEST_ID: Final = re.compile(rb"[!-~]{1,128}")
"""A caller's request id is echoed when it is printable ASCII without spaces, and not too long for a log line."""

REFUSALS: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
"""Statuses by which a request is refused for who sent it."""

_log = structlog.get_logger(__name__)

_audit_log: Any = structlog.wrap_logger(
    None, wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET), logger_factory_args=(AUDIT,)
)
"""Passes everything on: the level of the log leaves out what happens, not who did it."""


class RequestContextMiddleware:
    """Gives each request an id and a line in the log, and each answer its `X-Request-ID` and `Server-Timing`.

    Args:
        app: the application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope["headers"])
        clock = new_clock()
        trail = new_audit_record()
        structlog.contextvars.bind_contextvars(request_id=request_id.decode())
        method, path = scope["method"], scope["path"]
        started = time.perf_counter()
        status = 0

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                total = time.perf_counter() - started
                timing = f"store;dur={clock.seconds * 1000:.2f}, total;dur={total * 1000:.2f}"
                message["headers"] = [
                    *message["headers"],
                    *_hardening(path, message["headers"]),
                    (b"x-request-id", request_id),
                    (b"server-timing", timing.encode()),
                ]
            await send(message)

        try:
            await self._app(scope, receive, observed)
        finally:
            _log.info(
                "request",
                method=method,
                path=path,
                status=status,
                ms=round((time.perf_counter() - started) * 1000, 2),
                store_ms=round(clock.seconds * 1000, 2),
            )
            if trail.told or status in REFUSALS:
                _audit(scope, trail, trail.status or status)
            structlog.contextvars.clear_contextvars()


def _hardening(path: str, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers that harden an answer. The documentation page has a policy of its own."""
    own = path.startswith("/docs") and any(name == b"content-security-policy" for name, _ in headers)
    return ALWAYS if own else STRICT


def _audit(scope: Scope, trail: AuditRecord, status: int) -> None:
    """Tell who wrote or was refused: who, what, how many, and how it ended. Never content."""
    handler = scope.get("route_handler")
    key: Key | None = scope.get("user")
    _audit_log.info(
        "audit",
        who="anonymous" if key is None else key.name,
        operation=getattr(handler, "operation_id", None) or f"{scope.get('method')} {scope.get('path_template')}",
        collection=trail.collection or scope.get("path_params", {}).get("collection_name", ""),
        count=trail.count,
        status=status,
    )


def _request_id(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    for name, value in headers:
        if name == b"x-request-id" and REQUEST_ID.fullmatch(value):
            return value
    return uuid4().hex.encode()
