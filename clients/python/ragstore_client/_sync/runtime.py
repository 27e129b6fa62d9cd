"""The differences between the two clients, for threads: waiting, deadlines, concurrency, iteration.

This module and `_async/runtime.py` are written by hand and define the same names. Every other module of `_sync` is
generated from its counterpart in `_async`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, Self, TypeAlias, TypeVar

import httpx

from ragstore_client._httpx import break_reference_cycle

if TYPE_CHECKING:
    from ragstore_client._models import NewDocument

P = ParamSpec("P")
T = TypeVar("T")

DocumentSource: TypeAlias = "Iterable[NewDocument]"
SendBody: TypeAlias = Callable[[bytes], object]
Task: TypeAlias = Future[T]


def sleep(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


def fetch(http: httpx.Client, request: httpx.Request, timeout_seconds: float) -> tuple[httpx.Response, bytes]:
    """Send a request and read the whole response.

    Args:
        http: the httpx client. The request carries the limit for each of its steps.
        request: what to send.
        timeout_seconds: time limit for the body, counted from sending the request.

    Returns:
        The response and its body.

    Raises:
        TimeoutError: the body was not complete when the time limit had passed.
        httpx.HTTPError: the request failed, or one of its steps took too long.
    """
    deadline = time.monotonic() + timeout_seconds
    response = http.send(request, stream=True)
    pieces = []
    try:
        # httpx limits the wait for each piece, which a server that sends one byte a second would never exceed.
        for piece in response.iter_bytes():
            pieces.append(piece)
            if time.monotonic() > deadline:
                raise TimeoutError
    finally:
        response.close()
    break_reference_cycle(response)
    return response, b"".join(pieces)


def iterate(documents: DocumentSource) -> Iterable[NewDocument]:
    """Iterate over documents."""
    return documents


class Workers:
    """Runs functions concurrently, in threads. Leaving the context waits for those that run.

    Args:
        max_workers: maximum number of threads.
    """

    def __init__(self, max_workers: int) -> None:
        self._executor = ThreadPoolExecutor(max_workers, thread_name_prefix="ragstore-ingest")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown()

    def start(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Task[T]:
        """Start a function."""
        return self._executor.submit(work, *args, **kwargs)

    def result(self, task: Task[T]) -> T:
        """Wait for a task and return its result."""
        return task.result()

    def cancel(self, tasks: list[Task[T]]) -> None:
        """Cancel tasks that have not started. A function that runs cannot be interrupted."""
        for task in tasks:
            task.cancel()
