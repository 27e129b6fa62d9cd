"""Spans of batches: one span for several requests, linked with the span of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, Tracer

from ragstore.store.batching.tracer import Kind


class SpanBatchTracer:
    """Makes one OpenTelemetry span for each batch of several requests.

    The span is a child of the first request's span, so that the calls to Chroma belong to a trace. It is linked with
    the spans of the other requests, in both directions. A batch of one request has no span of its own: the spans of
    Chroma are children of the request's span.

    Args:
        tracer: makes the spans.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def capture(self) -> object:
        """The span of the current request."""
        return trace.get_current_span()

    def batch_span(
        self, kind: Kind, collection: str, requests: Sequence[object], count: int
    ) -> AbstractContextManager[object]:
        """Open a span around the call that is made for a batch."""
        return self._batch_span(kind, collection, requests, count)

    @contextmanager
    def _batch_span(self, kind: Kind, collection: str, requests: Sequence[object], count: int) -> Iterator[None]:
        spans = [span for span in requests if isinstance(span, Span) and span.get_span_context().trace_flags.sampled]
        if not spans:
            yield
            return
        first, *others = spans
        if len(requests) == 1:
            with trace.use_span(first, record_exception=False, set_status_on_exception=False):
                yield
            return
        with self._tracer.start_as_current_span(
            f"merged {kind}",
            context=trace.set_span_in_context(first, Context()),
            links=[Link(other.get_span_context()) for other in others],
            attributes={"db.collection.name": collection, "ragstore.calls": len(requests), "ragstore.count": count},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            for other in others:
                if other.is_recording():
                    other.add_link(span.get_span_context())
            yield
