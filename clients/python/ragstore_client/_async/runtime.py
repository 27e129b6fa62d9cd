"""The differences between the two clients, for asyncio: waiting, deadlines, concurrency, iteration.

This module and `_sync/runtime.py` are written by hand and define the same names. Every other module of `_sync` is
generated from its counterpart in `_async`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, ParamSpec, Self, TypeAlias, TypeVar

import httpx

from ragstore_client._httpx import break_reference_cycle

if TYPE_CHECKING:
    from ragstore_client._models import NewDocument

P = ParamSpec("P")
T = TypeVar("T")

DocumentSource: TypeAlias = "Iterable[NewDocument] | AsyncIterable[NewDocument]"
SendBody: TypeAlias = Callable[[bytes], Awaitable[object]]
Task: TypeAlias = asyncio.Task[T]


async def sleep(seconds: float) -> None:
    """Wait."""
    await asyncio.sleep(seconds)


async def fetch(
    http: httpx.AsyncClient, request: httpx.Request, timeout_seconds: float
) -> tuple[httpx.Response, bytes]:
    """Send a request and read the whole response.

    Args:
        http: the httpx client.
        request: what to send.
        timeout_seconds: total time limit, from sending the request to the last byte of the body.

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


def iterate(documents: DocumentSource) -> AsyncIterable[NewDocument]:
    """Iterate over documents of either kind of source."""
    return documents if isinstance(documents, AsyncIterable) else _async_iterator(documents)


async def _async_iterator(documents: Iterable[NewDocument]) -> AsyncIterator[NewDocument]:
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

    async def cancel(self, tasks: list[Task[T]]) -> None:
        """Cancel tasks and wait for them to end."""
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
