"""Queues that are fair between callers: one that waits gets its turn after at most one turn of each other caller."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, ParamSpec, TypeVar

from ragstore.kit.context import current_caller

T = TypeVar("T")
P = ParamSpec("P")


class FairQueue(Generic[T]):
    """A queue with a line for each caller. The lines take turns (round robin); each is first in, first out.

    The caller comes from the request in progress. Work outside of requests has a line of its own.
    """

    def __init__(self) -> None:
        self._lines: OrderedDict[str | None, deque[T]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._lines)

    def put(self, item: T) -> Callable[[], bool]:
        """Add an item to the line of the current caller.

        Returns:
            A function that removes the item, and returns whether it was still there.
        """
        caller = current_caller()
        self._lines.setdefault(caller, deque()).append(item)

        def remove() -> bool:
            line = self._lines.get(caller)
            if line is None or item not in line:
                return False
            line.remove(item)
            if not line:
                del self._lines[caller]
            return True

        return remove

    def head(self) -> T:
        """The item whose turn is next."""
        return next(iter(self._lines.values()))[0]

    def pop(self) -> T:
        """Remove the item whose turn is next. Its caller's next item comes after one of each other caller."""
        caller, line = self._lines.popitem(last=False)
        item = line.popleft()
        if line:
            self._lines[caller] = line
        return item


class FairSemaphore:
    """A semaphore whose slots go to callers in turn.

    Args:
        slots: number of slots.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()

    async def acquire(self) -> None:
        """Take a slot, and wait for it if none is free."""
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        remove = self._waiting.put(turn)
        try:
            await turn
        except asyncio.CancelledError:
            # The slot may have come together with the cancellation.
            if not remove() and not turn.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Give a slot back."""
        while self._waiting:
            turn = self._waiting.pop()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold a slot while the block runs."""
        await self.acquire()
        try:
            yield
        finally:
            self.release()

    async def in_thread(self, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Call a function in a thread, with a slot that is held until the function returns.

        A caller that leaves does not end the thread, so its slot is not free before.

        Args:
            options: its keyword arguments.

        Returns:
            Its result.
        """
        await self.acquire()
        running = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **options))
        running.add_done_callback(self._returned)
        return await asyncio.shield(running)

    def _returned(self, running: asyncio.Future[T]) -> None:
        self.release()
        if not running.cancelled():
            running.exception()  # the caller that would retrieve it may have left
