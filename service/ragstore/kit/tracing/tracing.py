"""Traces. Importing this module loads OpenTelemetry, so it is imported only when traces are exported."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from typing import Final

from litestar.middleware.base import DefineMiddleware
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ragstore.kit.tracing.requests import request_spans

FLUSH_SECONDS: Final = 2.0
"""Maximum wait at shutdown for the last spans to be sent, since the collector may be down."""


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
