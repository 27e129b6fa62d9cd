"""Spans of calls to Chroma, and of what is asked of it for several requests at once: names, ids, counts, no content."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode, Tracer

from ragstore.chroma.backend import Backend
from ragstore.chroma.layers.intercepting import Asked, WatchingBackend
from ragstore.kit.errors import ServiceError

T = TypeVar("T")

SYSTEM: Final = "chroma"
BY_NAME: Final = frozenset({"create_collection", "get_collection", "delete_collection"})
"""Operations that know the collection's name; the others know its id."""


class TracingBackend(WatchingBackend):
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
        self, asked: Asked, call: Callable[[], Awaitable[T]], *, repeatable: bool = True, two_step_read: bool = False
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
                if isinstance(error, ServiceError) and error.status >= 500:
                    span.set_status(StatusCode.ERROR)
                raise
