"""The context of the request in progress: its id, caller, deadline, time spent in the backend, and audit record.

Middleware begins a request; code at any depth reads and writes its context without having it passed through. Code that
runs outside of a request, such as a command or a test, may call all of these functions, too: they do nothing then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from ragstore.kit.errors import ServiceError


class AuditRecord:
    """The entry of one request in the audit log.

    Attributes:
        recorded: whether there is anything to log.
        resource: name of the resource that was written to, or denied.
        count: number of items written or deleted, or of resources denied; None when not known.
        status: final status, where it was known only after the response had begun; else None.
    """

    __slots__ = ("count", "recorded", "resource", "status")

    def __init__(self) -> None:
        self.recorded = False
        self.resource = ""
        self.count: int | None = None
        self.status: int | None = None


class BackendTimer:
    """Adds up the time that one request spends in the backend. Overlapping calls count once."""

    __slots__ = ("_running", "_started", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._running = 0
        self._started = 0.0

    def start(self) -> None:
        """A call begins."""
        if self._running == 0:
            self._started = time.perf_counter()
        self._running += 1

    def stop(self) -> None:
        """A call ends."""
        self._running -= 1
        if self._running == 0:
            self.seconds += time.perf_counter() - self._started


class RequestContext:
    """The state of one request.

    Args:
        request_id: id of the request, the caller's own where it sent one.

    Attributes:
        backend: time spent in the backend.
        audit: record for the audit log.
        failure: code, text and cause of the error that it got as its response, if any. The error itself is not kept: it
            has the frames it went through, and they have the body. A connection that stays open keeps this context.
        facts: further fields of its log line. They are no content.
        timings: further entries of its `Server-Timing`, in seconds.
    """

    __slots__ = ("audit", "backend", "facts", "failure", "request_id", "timings")

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.backend = BackendTimer()
        self.audit = AuditRecord()
        self.failure: dict[str, str] = {}
        self.facts: dict[str, str | int] = {}
        self.timings: dict[str, float] = {}


_request: ContextVar[RequestContext | None] = ContextVar("request", default=None)
_caller: ContextVar[str | None] = ContextVar("caller", default=None)


def begin_request(request_id: str) -> RequestContext:
    """Begin a request, in this task and in those it starts.

    Args:
        request_id: id of the request.

    Returns:
        Its context.
    """
    request = RequestContext(request_id)
    _request.set(request)
    set_caller("")
    return request


def current_request() -> RequestContext | None:
    """The request in progress, if there is one."""
    return _request.get()


@contextmanager
def inner_request() -> Iterator[None]:
    """Give a request that the request in progress makes within its process a context of its own, with the same id.

    Otherwise its writes, its error and its time in the backend would be in the log lines of the request in progress.
    """
    outer = _request.get()
    if outer is None:
        yield
        return
    token = _request.set(RequestContext(outer.request_id))
    try:
        yield
    finally:
        _request.reset(token)


def set_caller(name: str) -> None:
    """Set the caller of the request in progress, for this task and those it starts.

    Args:
        name: name of its key; empty without one.
    """
    _caller.set(name)


def current_caller() -> str | None:
    """The name of the key of the request in progress: empty without keys, None outside of a request."""
    return _caller.get()


@contextmanager
def backend_timing() -> Iterator[None]:
    """Count the time of the block as the backend's."""
    request = _request.get()
    if request is None:
        yield
        return
    request.backend.start()
    try:
        yield
    finally:
        request.backend.stop()


def record_write(resource: str, count: int | None = None) -> None:
    """Record a write for the audit log, before it is tried or once it is done.

    Args:
        resource: name of the resource.
        count: number of items; None when not known.
    """
    request = _request.get()
    if request is not None:
        request.audit.recorded = True
        request.audit.resource = resource
        request.audit.count = count


def record_batch(resource: str, count: int) -> None:
    """Record one of several batches of a request for the audit log, before it is tried.

    Args:
        resource: name of the resource.
        count: number of items in the batch.
    """
    request = _request.get()
    if request is not None:
        record_write(resource, (request.audit.count or 0) + count)


def record_status(status: int) -> None:
    """Record for the audit log how a request ended whose response had begun before.

    Args:
        status: status that it would have had.
    """
    request = _request.get()
    if request is not None:
        request.audit.status = status


def record_error(error: ServiceError) -> None:
    """Record the error that a request gets as its response, for its log line."""
    request = _request.get()
    if request is not None:
        fields = {"code": error.code, "problem": error.detail, "cause": error.cause}
        request.failure = {name: text for name, text in fields.items() if text}


def record_facts(**facts: str | int) -> None:
    """Add fields to the log line of the request in progress.

    Args:
        facts: names and counts; never content.
    """
    request = _request.get()
    if request is not None:
        request.facts.update(facts)


def record_timing(name: str, seconds: float) -> None:
    """Add an entry to the `Server-Timing` of the request in progress.

    Args:
        name: its name, a token of HTTP.
    """
    request = _request.get()
    if request is not None:
        request.timings[name] = seconds


def record_denied(resource: str) -> None:
    """Record for the audit log that a resource was denied to a key.

    Args:
        resource: name of the resource; the first one is logged if there are several.
    """
    request = _request.get()
    if request is not None:
        request.audit.recorded = True
        request.audit.resource = request.audit.resource or resource
        request.audit.count = (request.audit.count or 0) + 1


class Budget:
    """The time that a request, or the current step of a stream, may still take.

    Args:
        seconds: its length.

    Attributes:
        seconds: its length; a renewed budget has it again.
        ends: when it ends, in the event loop's time.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._limits: dict[asyncio.Timeout, float] = {}
        self.ends = asyncio.get_running_loop().time() + seconds

    def renew(self, seconds: float | None = None) -> None:
        """Start over, also for the blocks that it limits already.

        Args:
            seconds: its length from now on; the same as before when None.
        """
        if seconds is not None:
            self.seconds = seconds
        self.ends = asyncio.get_running_loop().time() + self.seconds
        for limit, grace in self._limits.items():
            if not limit.expired():
                limit.reschedule(self.ends + grace)

    @asynccontextmanager
    async def limit(self, grace: float = 0.0) -> AsyncIterator[asyncio.Timeout]:
        """End the block when the budget ends, which is later if the budget is renewed.

        Args:
            grace: seconds that the block gets beyond.

        Yields:
            The timeout, which knows whether it has expired.

        Raises:
            TimeoutError: the budget is used up.
        """
        async with asyncio.timeout_at(self.ends + grace) as limit:
            self._limits[limit] = grace
            try:
                yield limit
            finally:
                del self._limits[limit]


_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


def set_deadline(seconds: float) -> Budget:
    """Begin a budget for this task and those it starts.

    Args:
        seconds: its length.

    Returns:
        The budget.
    """
    budget = Budget(seconds)
    _budget.set(budget)
    return budget


def current_budget() -> Budget | None:
    """The budget of the request in progress, if it has one."""
    return _budget.get()


def renew_deadline(seconds: float | None = None) -> None:
    """Start the budget of the request in progress over, if it has one.

    Args:
        seconds: its length from now on, also between two chunks of the response; the same as before when None. A route
            with a slower response calls this once it has read the body.
    """
    budget = _budget.get()
    if budget is not None:
        budget.renew(seconds)
