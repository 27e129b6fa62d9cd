"""Spans of parts of a request or of a job, and the headers that continue them on other servers.

The process has one maker of spans, as it has one registry of metrics. Without it, a span costs a look at a variable,
and nothing of OpenTelemetry is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Literal, Protocol, TypeAlias

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


_maker: SpanMaker | None = None


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
    if _maker is None:
        yield set_nothing
        return
    with _maker.span(name, kind, attributes or {}, begins=begins) as set_attribute:
        yield set_attribute


def outgoing_headers() -> dict[str, str]:
    """The headers of a call to another server: the id of the request in progress, and the trace if there is one."""
    headers = {} if _maker is None else _maker.headers()
    request = current_request()
    if request is not None:
        headers["X-Request-ID"] = request.request_id
    return headers
