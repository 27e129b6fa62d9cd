"""Spans of parts of a request or of a job, and the headers that continue them on other servers.

The process has one maker of spans, as it has one registry of metrics. Without it, a span costs a look at two
variables, and nothing of OpenTelemetry is loaded. `recorded_times` measures the same parts for a caller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

from ragstore.kit.context import current_request

Kind: TypeAlias = Literal["internal", "client"]
"""Whether a span is work of this process, or a call of another one."""

Value: TypeAlias = str | int | float | bool
SetAttribute: TypeAlias = Callable[[str, Value], object]
"""Sets an attribute of a span: names, ids, counts and times; never content."""


class SpanMaker(Protocol):
    """Makes spans; see `ragstore.kit.tracing.tracing.Tracing`."""

    def span(
        self, name: str, kind: Kind, attributes: Mapping[str, Value], *, begins: bool
    ) -> AbstractContextManager[SetAttribute]:
        """A span while the block runs."""

    def headers(self) -> dict[str, str]:
        """The headers by which a call to another server continues the trace."""


@dataclass(frozen=True, slots=True)
class SpanTime:
    """The duration of a span.

    Attributes:
        attributes: its attributes when it began.
    """

    name: str
    seconds: float
    attributes: Mapping[str, Value]


_maker: SpanMaker | None = None
_times: Final[ContextVar[list[SpanTime] | None]] = ContextVar("span_times", default=None)


def make_spans_by(maker: SpanMaker | None) -> None:
    """Choose what makes the spans of this process.

    Args:
        maker: makes them; None for no spans.
    """
    global _maker  # as the registry of metrics: one for the process
    _maker = maker


def set_nothing(name: str, value: Value) -> None:
    """An attribute of a span that is not made."""


@contextmanager
def recorded_times() -> Iterator[list[SpanTime]]:
    """Record the durations of the spans of a block, and of the tasks that it starts.

    Yields:
        The durations, in the order in which the spans end.
    """
    times: list[SpanTime] = []
    token = _times.set(times)
    try:
        yield times
    finally:
        _times.reset(token)


@contextmanager
def span(
    name: str, kind: Kind = "internal", attributes: Mapping[str, Value] | None = None, *, begins: bool = False
) -> Iterator[SetAttribute]:
    """Make a span while the block runs.

    Args:
        name: its name, which has no ids.
        kind: whether it is a call of another process.
        attributes: names, ids, counts and times; never content.
        begins: whether it begins a trace if it is in none. Otherwise it is made within a traced request or job only.

    Yields:
        Sets further attributes.
    """
    times = _times.get()
    if times is None:
        with _made(name, kind, attributes, begins=begins) as set_attribute:
            yield set_attribute
        return
    started = time.perf_counter()
    try:
        with _made(name, kind, attributes, begins=begins) as set_attribute:
            yield set_attribute
    finally:
        times.append(SpanTime(name, time.perf_counter() - started, attributes or {}))


def _made(
    name: str, kind: Kind, attributes: Mapping[str, Value] | None, *, begins: bool
) -> AbstractContextManager[SetAttribute]:
    """A span by the maker of the process; one that is not made if there is none."""
    return nullcontext(set_nothing) if _maker is None else _maker.span(name, kind, attributes or {}, begins=begins)


def outgoing_headers() -> dict[str, str]:
    """The headers of a call to another server: the id of the request in progress, and the trace if there is one."""
    headers = {} if _maker is None else _maker.headers()
    request = current_request()
    if request is not None:
        headers["X-Request-ID"] = request.request_id
    return headers
