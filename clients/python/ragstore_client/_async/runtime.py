"""The differences between the two clients, for asyncio: waiting, deadlines, concurrency, iteration.

This module and `_sync/runtime.py` are written by hand and define the same names. Every other module of `_sync` is
generated from its counterpart in `_async`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable
from typing import IO, Final, ParamSpec, Self, TypeAlias, TypeVar

import httpx

from ragstore_client._httpx import break_reference_cycle
from ragstore_client._models import NewDocumentLike

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

DocumentSource: TypeAlias = Iterable[NewDocumentLike] | AsyncIterable[NewDocumentLike]
SendBody: TypeAlias = Callable[[bytes], Awaitable[object]]
Task: TypeAlias = asyncio.Task[T]

PART_BYTES: Final = 256 * 1024
"""Size of the parts in which a file is sent."""


async def sleep(seconds: float) -> None:
    """Wait."""
    await asyncio.sleep(seconds)


def checkpoint() -> None:
    """Do nothing: a task ends when it is cancelled."""


async def run_all(send: Callable[[S], Awaitable[T]], items: Iterable[S], concurrency: int) -> list[T]:
    """Send several items, some of them concurrently, and return their results in order. An error ends all of them."""
    limit = asyncio.Semaphore(concurrency)

    async def send_one(item: S) -> T:
        async with limit:
            return await send(item)

    tasks = [asyncio.ensure_future(send_one(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function that blocks, such as one that reads a file."""
    return await asyncio.to_thread(function, *args, **kwargs)


async def file_parts(file: IO[bytes], size: int) -> AsyncIterator[bytes]:
    """A file from its beginning, in parts; of one that has grown since, the part that was announced.

    Args:
        size: the announced size in bytes.

    Raises:
        OSError: the file cannot be read, or is shorter than announced.
    """
    await asyncio.to_thread(file.seek, 0)
    while size:
        part = await asyncio.to_thread(file.read, min(size, PART_BYTES))
        if not part:
            raise OSError(0, "The file was cut while it was sent")
        size -= len(part)
        yield part


async def fetch(
    http: httpx.AsyncClient, request: httpx.Request, timeout_seconds: float | None
) -> tuple[httpx.Response, bytes]:
    """Send a request and read the whole response.

    Args:
        http: the httpx client.
        request: what to send.
        timeout_seconds: total time limit, from sending the request to the last byte of the body; None for none.

    Returns:
        The response and its body.

    Raises:
        TimeoutError: the time limit has passed.
        httpx.HTTPError: the request failed.
    """
    async with asyncio.timeout(timeout_seconds):
        response = await http.send(request)
    break_reference_cycle(response)
    return response, response.content


def iterate(documents: DocumentSource) -> AsyncIterable[NewDocumentLike]:
    """Iterate over documents of either kind of source."""
    return documents if isinstance(documents, AsyncIterable) else _async_iterator(documents)


async def _async_iterator(documents: Iterable[NewDocumentLike]) -> AsyncIterator[NewDocumentLike]:
    for document in documents:
        yield document


class AsyncWorkers:
    """Runs functions concurrently, as tasks.

    Args:
        max_workers: unused here: `InFlight` limits the number of tasks. Threads need the number in advance.
    """

    def __init__(self, max_workers: int) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def start(self, work: Callable[P, Coroutine[object, object, T]], *args: P.args, **kwargs: P.kwargs) -> Task[T]:
        """Start a function."""
        return asyncio.create_task(work(*args, **kwargs))

    async def result(self, task: Task[T]) -> T:
        """Wait for a task and return its result."""
        return await task

    async def first(self, tasks: Collection[Task[T]]) -> set[Task[T]]:
        """Wait until at least one task is done, and return the tasks that are done."""
        return (await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED))[0]

    async def cancel(self, tasks: list[Task[T]]) -> list[T]:
        """Cancel tasks, wait for them to end, and return the results of completed tasks."""
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        return [result for result in results if not isinstance(result, BaseException)]
