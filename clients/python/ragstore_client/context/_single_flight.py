"""Runs one call for concurrent callers with the same key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Generic, TypeVar

from ragstore_client._tasks import cancel

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Flight(Generic[T]):
    """A call in flight, and the number of its callers."""

    def __init__(self, task: asyncio.Task[T]) -> None:
        self.task = task
        self.callers = 0


class SingleFlight(Generic[K, T]):
    """Runs at most one call per key and event loop at a time.

    A call is a task of its own. It ends with an exception for all of its callers, and is cancelled when the last one is
    cancelled.
    """

    def __init__(self) -> None:
        self._flights: dict[tuple[asyncio.AbstractEventLoop, K], _Flight[T]] = {}

    async def run(self, key: K, call: Callable[[], Coroutine[object, object, T]]) -> T:
        """Make a call, or wait for the call in flight.

        Args:
            key: identifies the call.
            call: makes the call; only used if none is in flight.

        Returns:
            The result of the call.
        """
        own = (asyncio.get_running_loop(), key)
        flight = self._flights.get(own)
        if flight is None:
            flight = self._flights[own] = _Flight(asyncio.create_task(call()))
        flight.callers += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.callers -= 1
            if flight.task.done() or not flight.callers:
                if self._flights.get(own) is flight:
                    self._flights.pop(own, None)
                await cancel([flight.task])

    def holds(self, key: K) -> bool:
        """Whether the running task is the call in flight for a key: false once the key was forgotten."""
        flight = self._flights.get((asyncio.get_running_loop(), key))
        return flight is not None and flight.task is asyncio.current_task()

    def forget(self, selects: Callable[[K], bool]) -> None:
        """Let later callers make a call of their own. Calls in flight continue for their callers.

        Any thread may call it.

        Args:
            selects: whether a key is affected.
        """
        for known in [known for known in list(self._flights) if selects(known[1])]:
            self._flights.pop(known, None)
