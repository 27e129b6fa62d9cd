"""The differences between the two clients, for threads: waiting, deadlines, concurrency, iteration.

This module and `_async/runtime.py` are written by hand and define the same names. Every other module of `_sync` is
generated from its counterpart in `_async`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from queue import SimpleQueue
from typing import IO, Final, ParamSpec, Self, TypeAlias, TypeVar

import httpx

from ragstore_client._httpx import break_reference_cycle
from ragstore_client._models import NewDocumentLike

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

DocumentSource: TypeAlias = Iterable[NewDocumentLike]
SendBody: TypeAlias = Callable[[bytes], object]
Task: TypeAlias = Future[T]

PART_BYTES: Final = 256 * 1024
"""Size of the parts in which a file is sent."""

_Work: TypeAlias = Callable[[], None]


class _Stopped(Exception):
    """The workers of this thread have to stop."""


class _Current(threading.local):
    stopping: threading.Event | None = None


_current = _Current()


def sleep(seconds: float) -> None:
    """Wait. In a thread of `Workers`, the wait ends with an error when they are stopped."""
    if _current.stopping is None:
        time.sleep(seconds)
    elif _current.stopping.wait(seconds):
        raise _Stopped


def checkpoint() -> None:
    """Raise an error in a thread of `Workers` that were stopped: a thread cannot be cancelled."""
    if _current.stopping is not None and _current.stopping.is_set():
        raise _Stopped


def run_all(send: Callable[[S], T], items: Iterable[S], concurrency: int) -> list[T]:
    """Send several items, some of them concurrently, and return their results in order. An error ends all of them."""
    pending = list(items)
    with Workers(min(concurrency, max(len(pending), 1))) as workers:
        tasks = [workers.start(send, item) for item in pending]
        return [workers.result(task) for task in tasks]


def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that blocks: in this thread, which may."""
    return function(*args, **kwargs)


def file_parts(file: IO[bytes], size: int) -> Iterator[bytes]:
    """A file from its beginning, in parts; of one that has grown since, the part that was announced.

    Args:
        size: the announced size in bytes.

    Raises:
        OSError: the file cannot be read, or is shorter than announced.
    """
    file.seek(0)
    while size:
        checkpoint()
        part = file.read(min(size, PART_BYTES))
        if not part:
            raise OSError(0, "The file was cut while it was sent")
        size -= len(part)
        yield part


def fetch(http: httpx.Client, request: httpx.Request, timeout_seconds: float | None) -> tuple[httpx.Response, bytes]:
    """Send a request and read the whole response.

    Args:
        http: the httpx client. The request carries the limit for each of its steps.
        request: what to send.
        timeout_seconds: time limit for the body, counted from sending the request; None for none.

    Returns:
        The response and its body.

    Raises:
        TimeoutError: the body was not complete when the time limit had passed.
        httpx.HTTPError: the request failed, or one of its steps took too long.
    """
    deadline = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
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


def iterate(documents: DocumentSource) -> DocumentSource:
    """Iterate over documents."""
    return documents


class Workers:
    """Runs functions concurrently, in daemon threads.

    Leaving the context waits for nothing: a request that hangs neither delays Ctrl-C nor the end of the process, as the
    threads of `concurrent.futures.ThreadPoolExecutor` do.

    Args:
        max_workers: maximum number of threads.
    """

    def __init__(self, max_workers: int) -> None:
        self._max_workers = max_workers
        self._threads = 0
        self._work: SimpleQueue[_Work | None] = SimpleQueue()
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for _thread in range(self._threads):
            self._work.put(None)

    def start(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Task[T]:
        """Start a function."""
        task: Task[T] = Future()

        def run() -> None:
            if self._stopping.is_set():
                task.cancel()
            if not task.set_running_or_notify_cancel():
                return
            try:
                result = work(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
                task.set_exception(error)
            else:
                task.set_result(result)

        self._work.put(run)
        if self._threads < self._max_workers:
            self._threads += 1
            threading.Thread(target=self._run, name="ragstore-ingest", daemon=True).start()
        return task

    def result(self, task: Task[T]) -> T:
        """Wait for a task and return its result."""
        return task.result()

    def first(self, tasks: Collection[Task[T]]) -> set[Task[T]]:
        """Wait until at least one task is done, and return the tasks that are done."""
        return wait(tasks, return_when=FIRST_COMPLETED).done

    def cancel(self, tasks: list[Task[T]]) -> list[T]:
        """Stop the tasks after their request, without waiting, and return the results of completed tasks."""
        self._stopping.set()
        for task in tasks:
            task.cancel()
        done = [task for task in tasks if task.done() and not task.cancelled()]
        return [task.result() for task in done if task.exception() is None]

    def _run(self) -> None:
        _current.stopping = self._stopping
        while (work := self._work.get()) is not None:
            work()
