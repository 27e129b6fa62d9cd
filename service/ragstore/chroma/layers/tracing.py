"""Spans of calls to Chroma: names, ids and counts, no content."""

from __future__ import annotations

from typing import Final, TypeVar

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode, Tracer

from ragstore.chroma.layers.layered_backend import BackendLayer, NextCall
from ragstore.chroma.operations import Operation
from ragstore.kit.errors import ServiceError

T = TypeVar("T")

SYSTEM: Final = "chroma"


class TracingLayer(BackendLayer):
    """Makes a span for each call to Chroma.

    A call outside of a traced request, such as a probe's, has no span.

    Args:
        tracer: makes the spans.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def concerns(self, kind: type[Operation[object]]) -> bool:
        """Concerns everything that is a call."""
        return not kind.is_cached

    async def call(self, next_call: NextCall[T], operation: Operation[T]) -> T:
        """Execute an operation within a span."""
        if not trace.get_current_span().is_recording():
            return await next_call(operation)
        attributes: dict[str, str | int] = {"db.system.name": SYSTEM, "db.operation.name": operation.name}
        if operation.collection:
            key = "db.collection.name" if operation.collection_name else "ragstore.collection.id"
            attributes[key] = operation.collection
        if operation.size is not None:
            attributes["ragstore.count"] = operation.size
        # The exception's message is not recorded: it may repeat what was sent to Chroma.
        with self._tracer.start_as_current_span(
            f"{SYSTEM} {operation.name}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                return await next_call(operation)
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                if isinstance(error, ServiceError) and error.status >= 500:
                    span.set_status(StatusCode.ERROR)
                raise
