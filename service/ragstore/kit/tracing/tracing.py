"""Everything that traces need, in one object. Who imports this wants them: it loads OpenTelemetry."""

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

from ragstore import __version__

FLUSH_SECONDS: Final = 2.0
"""Longest wait for the last spans to be sent, when the service stops and the collector may be away."""


class Tracing:
    """Makes spans and sends them by OTLP over HTTP, as OpenTelemetry's own `OTEL_*` variables say.

    Spans are sent by a thread of their own, from a queue that drops what it cannot hold: a collector that is slow or
    away costs requests nothing.

    Attributes:
        tracer: makes the spans.
    """

    def __init__(self) -> None:
        # The stable names of attributes. The plugin still takes the old ones when it is not told.
        os.environ.setdefault("OTEL_SEMCONV_STABILITY_OPT_IN", "http")
        # One line for each batch that was not sent is enough.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)
        own = Resource.create({"service.name": "ragstore", "service.version": __version__})
        self._exporter = OTLPSpanExporter()
        self._provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
        self._processor = BatchSpanProcessor(self._exporter)
        self._provider.add_span_processor(self._processor)
        self.tracer = self._provider.get_tracer("ragstore", __version__)
        self._passed_on = TraceContextTextMapPropagator()

    def middleware(self) -> DefineMiddleware:
        """The middleware that makes a span for each request."""
        from ragstore.kit.tracing.requests import request_spans

        return request_spans(self._provider)

    def headers(self) -> dict[str, str]:
        """The headers by which a call to Chroma's server continues the trace. Baggage is not passed on."""
        carrier: dict[str, str] = {}
        self._passed_on.inject(carrier)
        return carrier

    async def close(self) -> None:
        """Send the last spans, if that is done soon."""
        # A daemon: Python waits for no such thread when it ends.
        flushing = threading.Thread(target=self._processor.shutdown, daemon=True, name="flush-spans")
        flushing.start()
        await asyncio.to_thread(flushing.join, FLUSH_SECONDS)
        if flushing.is_alive():
            self._exporter.shutdown()  # type: ignore[no-untyped-call]  # OpenTelemetry leaves it untyped
