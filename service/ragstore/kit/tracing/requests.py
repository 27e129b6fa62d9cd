"""Spans of requests, by Litestar's OpenTelemetry plugin, less what it would tell of their content."""

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

from ragstore.kit.middleware.limits import ALWAYS_ANSWERED
from ragstore.kit.middleware.metrics import METHODS

TOLD: Final = frozenset({b"host", b"user-agent", b"content-length"})
"""Headers that a span may tell of. Others, such as keys, are kept from the plugin, whatever it is told to capture."""

_SCOPE: Final = "ragstore.scope"
_FAILURE: Final = "ragstore.failure"


class RequestSpans(OpenTelemetryInstrumentationMiddleware):
    """Makes a span for each request but those of probes and of Prometheus.

    The plugin writes the query into the span's URL, and the message of an exception into its events. Queries hold
    filters, and so metadata values; messages may hold anything. So the plugin sees a scope without a query, with few
    headers, and no exception. It names spans by their path, too; here they are named by their route.

    Args:
        app: the application.
        config: the plugin's configuration.
    """

    def __init__(self, app: ASGIApp, config: OpenTelemetryConfig) -> None:
        self._untraced = app
        self._told = TOLD | {field.lower().encode() for field in propagate.get_global_textmap().fields}
        super().__init__(_named(app), config)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != ScopeType.HTTP or scope["path"] in ALWAYS_ANSWERED:
            await self._untraced(scope, receive, send)
            return
        headers = [(name, value) for name, value in scope["headers"] if name in self._told]
        told: dict[str, Any] = {**scope, "query_string": b"", "headers": headers, _SCOPE: scope}
        await super().__call__(cast("Scope", told), receive, send)
        if _FAILURE in told:
            raise told[_FAILURE]


def _named(app: ASGIApp) -> ASGIApp:
    """An application that tells its span the route, and how it failed; with the scope that the plugin did not see."""

    async def named(told: Scope, receive: Receive, send: Send) -> None:
        kept = cast("dict[str, Any]", told)
        scope: Scope = kept[_SCOPE]
        span = trace.get_current_span()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                _name(span, scope)
            await send(message)

        try:
            await app(scope, receive, sending)
        except Exception as error:  # noqa: BLE001  # raised again where the plugin does not see it
            span.set_status(StatusCode.ERROR)
            span.set_attribute("error.type", type(error).__name__)
            kept[_FAILURE] = error

    return named


def _name(span: Span, scope: Scope) -> None:
    route = scope.get("path_template")
    if route:
        span.update_name(f"{_method(scope)} {route}")
        span.set_attribute("http.route", route)


def _method(scope: Scope) -> str:
    method = str(scope.get("method"))
    return method if method in METHODS else "HTTP"


def _noted(span: Span, scope: dict[str, Any]) -> None:
    """Put the trace into every log line of the request."""
    context = span.get_span_context()
    structlog.contextvars.bind_contextvars(
        trace_id=trace.format_trace_id(context.trace_id), span_id=trace.format_span_id(context.span_id)
    )


def request_spans(provider: TracerProvider) -> DefineMiddleware:
    """The plugin's middleware.

    Args:
        provider: makes the spans.

    Returns:
        A middleware that Litestar puts before its router.
    """
    return OpenTelemetryConfig(
        tracer_provider=provider,
        meter_provider=NoOpMeterProvider(),
        scope_span_details_extractor=lambda scope: (_method(scope), {}),
        server_request_hook_handler=_noted,
        exclude_spans=["receive", "send"],
        middleware_class=RequestSpans,
    ).middleware
