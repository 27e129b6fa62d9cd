"""Traces. Importing this module loads OpenTelemetry, so it is imported only when traces are exported."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from http import HTTPStatus
from typing import Final

import structlog
from litestar.middleware.base import DefineMiddleware
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode, format_trace_id, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ragstore.kit.errors import ServiceError
from ragstore.kit.tracing.requests import request_spans
from ragstore.kit.tracing.spans import Kind, SetAttribute, Value, set_nothing

FLUSH_SECONDS: Final = 2.0
"""Maximum wait at shutdown for the last spans to be sent, since the collector may be down."""

_KINDS: Final[Mapping[Kind, SpanKind]] = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}


class Tracing:
    """Makes spans and sends them by OTLP over HTTP, as OpenTelemetry's own `OTEL_*` variables configure.

    A thread sends the spans from a queue that drops what it cannot hold: a slow collector does not slow requests down.

    Args:
        service: name of the service.

    Attributes:
        tracer: makes the spans.
    """

    def __init__(self, service: str, version: str) -> None:
        # The stable names of attributes. The plugin uses the old ones by default.
        os.environ.setdefault("OTEL_SEMCONV_STABILITY_OPT_IN", "http")
        # One line for each batch that was not sent is enough.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)
        own = Resource.create({"service.name": service, "service.version": version})
        self._exporter = OTLPSpanExporter()
        self._provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
        self._processor = BatchSpanProcessor(self._exporter)
        self._provider.add_span_processor(self._processor)
        self.tracer = self._provider.get_tracer(service, version)
        self._propagator = TraceContextTextMapPropagator()

    def middleware(self) -> DefineMiddleware:
        """The middleware that makes a span for each request."""
        return request_spans(self._provider)

    @contextmanager
    def span(self, name: str, kind: Kind, attributes: Mapping[str, Value], *, begins: bool) -> Iterator[SetAttribute]:
        """A span while the block runs; see `ragstore.kit.tracing.spans.span`."""
        is_within = get_current_span().is_recording()
        if not (is_within or begins):
            yield set_nothing
            return
        # The exception's message is not recorded: it may repeat what was sent to another server.
        with self.tracer.start_as_current_span(
            name, kind=_KINDS[kind], attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            trace_id = format_trace_id(span.get_span_context().trace_id)
            # The middleware binds the ids of a request.
            with nullcontext() if is_within else structlog.contextvars.bound_contextvars(trace_id=trace_id):
                try:
                    yield span.set_attribute
                except Exception as error:
                    span.set_attribute("error.type", type(error).__name__)
                    if not isinstance(error, ServiceError) or error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                        span.set_status(StatusCode.ERROR)
                    raise

    def headers(self) -> dict[str, str]:
        """The headers by which a call to another server continues the trace. Baggage is not propagated."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier

    async def close(self) -> None:
        """Send the last spans, for a limited time."""
        # Python does not wait for a daemon thread at exit.
        flushing = threading.Thread(target=self._processor.shutdown, daemon=True, name="flush-spans")
        flushing.start()
        await asyncio.to_thread(flushing.join, FLUSH_SECONDS)
        if flushing.is_alive():
            self._exporter.shutdown()  # type: ignore[no-untyped-call]  # OpenTelemetry leaves it untyped
