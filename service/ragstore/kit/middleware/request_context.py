"""Request ids, timings, the access log and the audit log.

This middleware is outermost, so that it also covers what Litestar responds before it finds a route.
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

from ragstore.kit.auth.roles import CHANGES_NOTHING
from ragstore.kit.context import RequestContext, begin_request
from ragstore.kit.health import UNLIMITED_PATHS
from ragstore.kit.logging import AUDIT
from ragstore.kit.middleware.security_headers import ALWAYS, PAGE_PATHS, STRICT

REQUEST_ID: Final = re.compile(rb"[!-~]{1,128}")
"""A caller's request id is echoed when it is printable ASCII without spaces, and not too long for a log line."""

DENIALS: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)
"""Statuses of requests that are rejected for who sent them. These have an audit record, too."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods of requests that change nothing."""

_log = structlog.get_logger(__name__)

_audit_log: Any = structlog.wrap_logger(
    None, wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET), logger_factory_args=(AUDIT,)
)
"""Logs at every level: the log level is about events, not about the audit log."""


class RequestContextMiddleware:
    """Gives each request an id and a log line, and each response its `X-Request-ID` and `Server-Timing`.

    Args:
        app: the application.
        backend: name of the backend whose time is measured: in `Server-Timing`, and as `<backend>_ms` in the log.
        resource: name of the field that holds the resource in an audit record. Where a request records none, it is the
            path parameter `<resource>_name`, or the path if `audits_changes`.
        audits_changes: whether each request to a route that may change something has an audit record. Without it, only
            requests have one that record a write.
    """

    def __init__(
        self, app: ASGIApp, *, backend: str = "backend", resource: str = "resource", audits_changes: bool = False
    ) -> None:
        self._app = app
        self._backend = backend
        self._resource = resource
        self._audits_changes = audits_changes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != ScopeType.HTTP:
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope["headers"])
        request = begin_request(request_id.decode())
        structlog.contextvars.bind_contextvars(request_id=request.request_id)
        method, path = scope["method"], scope["path"]
        started = time.perf_counter()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                total = time.perf_counter() - started
                timings = {self._backend: request.backend.seconds, "total": total, **request.timings}
                timing = ", ".join(f"{name};dur={seconds * 1000:.2f}" for name, seconds in timings.items())
                own_id = [(b"x-request-id", request_id)]
                message["headers"] = [
                    *message["headers"],
                    *_security_headers(path, message["headers"]),
                    # A proxied response may have the id that its server gave it.
                    *([] if any(name == b"x-request-id" for name, _ in message["headers"]) else own_id),
                    (b"server-timing", timing.encode()),
                ]
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        finally:
            _log.log(
                _level(path, status),
                "request",
                method=method,
                path=path,
                status=status,
                ms=round((time.perf_counter() - started) * 1000, 2),
                **{f"{self._backend}_ms": round(request.backend.seconds * 1000, 2)},
                **request.facts,
                **(request.failure if status >= HTTPStatus.INTERNAL_SERVER_ERROR else {}),
            )
            if request.audit.recorded or status in DENIALS or (self._audits_changes and _may_change(scope)):
                self._write_audit_record(scope, request, request.audit.status or status)
            structlog.contextvars.clear_contextvars()

    def _write_audit_record(self, scope: Scope, request: RequestContext, status: int) -> None:
        """Log who wrote or was rejected: key, operation, resource, count, status. Never content."""
        handler = scope.get("route_handler")
        key = scope.get("user")
        resource = request.audit.resource or scope.get("path_params", {}).get(f"{self._resource}_name", "")
        if not resource and self._audits_changes:
            resource = str(scope.get("path", "")).lstrip("/")
        _audit_log.info(
            "audit",
            who="anonymous" if key is None else key.name,
            operation=getattr(handler, "operation_id", None) or f"{scope.get('method')} {scope.get('path_template')}",
            **{self._resource: resource},
            count=request.audit.count,
            status=status,
        )


def _may_change(scope: Scope) -> bool:
    """Whether a request reached a route that may change something. A route declares that it changes nothing."""
    # Without a route, the scope has no handler.
    options = getattr(scope.get("route_handler"), "opt", None)
    return options is not None and scope.get("method") not in SAFE_METHODS and CHANGES_NOTHING not in options


def _security_headers(path: str, headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The security headers of a response. A page has a policy of its own, and its files may be cached."""
    if not path.startswith(PAGE_PATHS):
        return STRICT
    own = {name for name, _ in headers}
    if b"content-security-policy" not in own:
        return STRICT
    return [header for header in ALWAYS if header[0] not in own]


def _level(path: str, status: int) -> int:
    """The log level of a request: probes and scrapes are frequent, and an unready service is logged by its cause."""
    if path in UNLIMITED_PATHS and status in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE):
        return logging.DEBUG
    return logging.WARNING if status >= HTTPStatus.INTERNAL_SERVER_ERROR else logging.INFO


def _request_id(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    for name, value in headers:
        if name == b"x-request-id" and REQUEST_ID.fullmatch(value):
            return value
    return uuid4().hex.encode()
