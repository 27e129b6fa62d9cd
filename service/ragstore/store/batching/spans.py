"""Spans of merged calls: one span for several requests, linked with the span of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, Tracer

from ragstore.store.batching.tracer import Kind


class SpanBatchTracer:
    """Makes a span for what is asked for several requests at once.

    The span is a child of the first request's, so that the calls to Chroma have a trace to stand in, and is linked with
    the spans of all the others, in both directions. A request that is alone has Chroma's spans as its own children.

    Args:
        tracer: makes the spans.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def caller(self) -> object:
        """The span of who asks now."""
        return trace.get_current_span()

    def together(
        self, kind: Kind, collection: str, callers: Sequence[object], count: int
    ) -> AbstractContextManager[object]:
        """Stand around a call that is made for several callers."""
        return self._together(kind, collection, callers, count)

    @contextmanager
    def _together(self, kind: Kind, collection: str, callers: Sequence[object], count: int) -> Iterator[None]:
        spans = [
            caller for caller in callers if isinstance(caller, Span) and caller.get_span_context().trace_flags.sampled
        ]
        if not spans:
            yield
            return
        first, *others = spans
        if len(callers) == 1:
            with trace.use_span(first, record_exception=False, set_status_on_exception=False):
                yield
            return
        with self._tracer.start_as_current_span(
            f"merged {kind}",
            context=trace.set_span_in_context(first, Context()),
            links=[Link(other.get_span_context()) for other in others],
            attributes={"db.collection.name": collection, "ragstore.calls": len(callers), "ragstore.count": count},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            for other in others:
                if other.is_recording():
                    other.add_link(span.get_span_context())
            yield
