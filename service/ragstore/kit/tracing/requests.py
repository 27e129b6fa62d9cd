"""Spans of requests, by Litestar's OpenTelemetry plugin, without the content that it would record."""

from __future__ import annotations

from typing import Any, Final, cast

import structlog
from litestar.enums import ScopeType
from litestar.middleware.base import DefineMiddleware
from litestar.plugins.opentelemetry import OpenTelemetryConfig, OpenTelemetryInstrumentationMiddleware
from litestar.types import ASGIApp, Message, Receive, Scope, Send
from opentelemetry import propagate, trace
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, StatusCode

from ragstore.kit.context import current_request
from ragstore.kit.health import UNLIMITED_PATHS
from ragstore.kit.metrics import METHODS

RECORDED_HEADERS: Final = frozenset({b"host", b"user-agent", b"content-length"})
"""Headers that a span may record. The plugin sees no others, such as keys, whatever it is configured to capture."""

_SCOPE: Final = "kit.scope"
_FAILURE: Final = "kit.failure"


class RequestSpans(OpenTelemetryInstrumentationMiddleware):
    """Makes a span for each request except probes and scrapes of metrics.

    The plugin records the query in the span's URL, and the message of an exception in its events. Both may hold
    content: a query may hold a filter. So the plugin sees a scope without a query and with few headers, and no
    exception. It also names spans by path; here they are named by route.

    Args:
        app: the application.
        config: the plugin's configuration.
    """

    def __init__(self, app: ASGIApp, config: OpenTelemetryConfig) -> None:
        self._untraced = app
        fields = propagate.get_global_textmap().fields
        self._headers = RECORDED_HEADERS | {field.lower().encode() for field in fields}
        super().__init__(_named(app), config)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != ScopeType.HTTP or scope["path"] in UNLIMITED_PATHS:
            await self._untraced(scope, receive, send)
            return
        headers = [(name, value) for name, value in scope["headers"] if name in self._headers]
        reduced: dict[str, Any] = {**scope, "query_string": b"", "headers": headers, _SCOPE: scope}
        await super().__call__(cast("Scope", reduced), receive, send)
        if _FAILURE in reduced:
            raise reduced[_FAILURE]


def _named(app: ASGIApp) -> ASGIApp:
    """Call the application with the full scope, and record its route and its failure in the span."""

    async def named(reduced_scope: Scope, receive: Receive, send: Send) -> None:
        reduced = cast("dict[str, Any]", reduced_scope)
        scope: Scope = reduced[_SCOPE]
        span = trace.get_current_span()

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                _name(span, scope)
            await send(message)

        try:
            await app(scope, receive, send_named)
        except Exception as error:  # noqa: BLE001  # raised again where the plugin does not see it
            span.set_status(StatusCode.ERROR)
            span.set_attribute("error.type", type(error).__name__)
            reduced[_FAILURE] = error

    return named


def _name(span: Span, scope: Scope) -> None:
    route = scope.get("path_template")
    if route:
        span.update_name(f"{_method(scope)} {route}")
        span.set_attribute("http.route", route)


def _method(scope: Scope) -> str:
    method = str(scope.get("method"))
    return method if method in METHODS else "HTTP"


def _bind_trace_ids(span: Span, scope: dict[str, Any]) -> None:
    """Add the trace's ids to every log line of the request, and the request's id to its span."""
    request = current_request()
    if request is not None:
        span.set_attribute("request_id", request.request_id)
    context = span.get_span_context()
    structlog.contextvars.bind_contextvars(
        trace_id=trace.format_trace_id(context.trace_id), span_id=trace.format_span_id(context.span_id)
    )


def request_spans(provider: TracerProvider) -> DefineMiddleware:
    """The plugin's middleware.

    Args:
        provider: makes the spans.

    Returns:
        A middleware that Litestar runs before its router.
    """
    return OpenTelemetryConfig(
        tracer_provider=provider,
        meter_provider=NoOpMeterProvider(),
        scope_span_details_extractor=lambda scope: (_method(scope), {}),
        server_request_hook_handler=_bind_trace_ids,
        exclude_spans=["receive", "send"],
        middleware_class=RequestSpans,
    ).middleware
