"""Spans of calls to Chroma, and of what is asked of it for several requests at once: names, ids, counts, no content."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, TypeVar

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer

from ragstore.errors import RagstoreError
from ragstore.store.backend import Backend
from ragstore.store.following import Kind
from ragstore.store.intercepting import Asked, WatchingBackend

T = TypeVar("T")

SYSTEM: Final = "chroma"
BY_NAME: Final = frozenset({"create_collection", "get_collection", "delete_collection"})
"""Operations that know the collection's name; the others know its id."""


class TracedBackend(WatchingBackend):
    """A backend that makes a span for each call to Chroma; see `Backend` for what each method does.

    A call that no traced request asks for, such as a probe's, has no span.

    Args:
        inner: the backend that is wrapped.
        tracer: makes the spans.
    """

    def __init__(self, inner: Backend, tracer: Tracer) -> None:
        super().__init__(inner)
        self._tracer = tracer

    async def _through(
        self, asked: Asked, call: Callable[[], Awaitable[T]], *, repeatable: bool = True, racy: bool = False
    ) -> T:
        """Make a call within a span."""
        if not trace.get_current_span().is_recording():
            return await call()
        attributes: dict[str, str | int] = {"db.system.name": SYSTEM, "db.operation.name": asked.operation}
        if asked.collection:
            named = asked.operation in BY_NAME
            attributes["db.collection.name" if named else "ragstore.collection.id"] = asked.collection
        if asked.size is not None:
            attributes["ragstore.count"] = asked.size
        # What an exception says is not recorded: it may repeat what Chroma was sent.
        with self._tracer.start_as_current_span(
            f"{SYSTEM} {asked.operation}",
            kind=SpanKind.CLIENT,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                return await call()
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                if isinstance(error, RagstoreError) and error.status >= 500:
                    span.set_status(StatusCode.ERROR)
                raise


class MergedCalls:
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
