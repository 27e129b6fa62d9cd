"""A budget for the bytes of all bodies in flight together: requests that are received or processed, and responses.

A request takes its share before its body is received. Without room it waits. While it waits, transfers that are too
slow for their share lose it: those whose pace would not complete the body within the time of a request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from prometheus_client import Counter

from ragstore.kit.errors import BodyTooLarge, Overloaded

MAX_WAIT_SECONDS: Final = 5.0
"""Maximum wait for a share; then the response is 503."""

SWEEP_SECONDS: Final = 1.0
"""How often the pace of senders and readers is measured while requests wait."""


class Share:
    """The bytes of one request in the budget.

    Attributes:
        size: its bytes.
    """

    def __init__(self) -> None:
        self.size = 0
        self.since = 0.0
        self.seen = 0
        self.progress: Callable[[], int] | None = None
        self.evict: Callable[[], None] | None = None

    def watch(self, progress: Callable[[], int], evict: Callable[[], None]) -> None:
        """Let the share be lost to others if it is too slow.

        Args:
            progress: the number of bytes that were transferred.
            evict: ends the transfer.
        """
        self.since = asyncio.get_running_loop().time()
        self.seen = progress()
        self.progress, self.evict = progress, evict

    def complete(self) -> None:
        """The transfer is complete, so it cannot be too slow."""
        self.progress = self.evict = None


class ByteBudget:
    """The bytes of all bodies in flight.

    Args:
        max_bytes: their maximum number. Responses for which nothing was reserved are counted, and may exceed it: they
            exist already.
        timeout_seconds: time within which a body must be transferred.
        rejections: counts rejected requests.

    Attributes:
        max_bytes: their maximum number.
    """

    def __init__(self, max_bytes: int, timeout_seconds: float, rejections: Counter) -> None:
        self.max_bytes = max_bytes
        self._timeout_seconds = timeout_seconds
        self._rejected = rejections.labels("bytes")
        self._used = 0
        self._shares: set[Share] = set()
        self._waiting: deque[tuple[asyncio.Future[None], Share, int]] = deque()
        self._sweeping: asyncio.TimerHandle | None = None

    async def take(self, share: Share, size: int) -> None:
        """Make a share larger, and wait until there is room for it.

        Args:
            share: the share.
            size: its new size.

        Raises:
            BodyTooLarge: it is larger than the whole budget.
            Overloaded: there was no room in time.
        """
        if size > self.max_bytes:
            raise BodyTooLarge(f"The body must not be larger than {self.max_bytes} bytes, the budget of all bodies")
        added = size - share.size
        if not self._waiting and self._used + added <= self.max_bytes:
            self.add(share, added)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiter = (turn, share, added)
        self._waiting.append(waiter)
        self._sweep_later()
        try:
            async with asyncio.timeout(min(MAX_WAIT_SECONDS, self._timeout_seconds)):
                await turn
        except TimeoutError:
            if not turn.done() or turn.cancelled():
                self._rejected.inc()
                raise Overloaded("Too many bytes of bodies are in flight") from None
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                self._wake()

    async def wait_for_room(self) -> None:
        """Wait while responses exceed the budget, before a request makes another one.

        Raises:
            Overloaded: they still exceeded it in the end.
        """
        if self._used > self.max_bytes:
            await self.take(Share(), 0)

    def add(self, share: Share, size: int) -> None:
        """Make a share larger, whether there is room or not."""
        if size:
            share.size += size
            self._used += size
            self._shares.add(share)

    def release(self, share: Share, size: int | None = None) -> None:
        """Give bytes of a share back, and let others have them.

        Args:
            share: the share.
            size: their number; all if None.
        """
        size = share.size if size is None else size
        share.size -= size
        self._used -= size
        if share.size == 0:
            self._shares.discard(share)
        self._wake()

    def _wake(self) -> None:
        """Give shares to those that wait, in their order."""
        while self._waiting:
            turn, share, size = self._waiting[0]
            if not turn.done():
                if self._used + size > self.max_bytes:
                    return
                self.add(share, size)
                turn.set_result(None)
            self._waiting.popleft()

    def _sweep_later(self) -> None:
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Take their shares from the slowest transfers, until the first request that waits fits."""
        self._sweeping = None
        now = asyncio.get_running_loop().time()
        paces: list[tuple[float, Share]] = []
        for share in self._shares:
            if share.progress is None:
                continue
            progress = share.progress()
            if now - share.since >= SWEEP_SECONDS:
                # 1 is the pace that completes the body in time.
                pace = (progress - share.seen) / SWEEP_SECONDS * self._timeout_seconds / max(share.size, 1)
                if pace < 1:
                    paces.append((pace, share))
            share.seen = progress
        if not self._waiting:
            return
        self._sweep_later()
        needed = self._used + self._waiting[0][2] - self.max_bytes
        for _, share in sorted(paces, key=lambda entry: entry[0]):
            if needed <= 0:
                break
            needed -= share.size
            if share.evict is not None:
                share.evict()
            share.complete()


@dataclass(frozen=True, slots=True)
class _Request:
    """The shares of a request in progress."""

    budget: ByteBudget
    body: Share
    response: Share


_current: ContextVar[_Request | None] = ContextVar("byte_budget", default=None)


@contextmanager
def request_shares(budget: ByteBudget, body: Share, response: Share) -> Iterator[None]:
    """Set the shares of the request in progress, and release them at its end.

    A request of the gateway contains requests to a store in its process, which has a budget of its own.

    Args:
        budget: the budget of all bodies.
        body: the share of the request's body.
        response: the share of its response.
    """
    token = _current.set(_Request(budget, body, response))
    try:
        yield
    finally:
        _current.reset(token)
        budget.release(body)
        budget.release(response)


async def reserve(size: int) -> None:
    """Reserve bytes for what the request in progress is about to make: its response, and copies made on the way to it.

    Call it before the work begins, with an estimate. The reservation ends with the request. An estimate beyond the
    whole budget reserves the whole budget, so that a legal request is served when it is alone.

    Args:
        size: number of bytes, in addition to those reserved before.

    Raises:
        Overloaded: there was no room in time.
    """
    current = _current.get()
    if current is not None:
        share = current.response
        await current.budget.take(share, min(share.size + size, current.budget.max_bytes))


def give_back(size: int) -> None:
    """Give back what the request in progress has reserved and does not hold any more.

    Args:
        size: number of bytes.
    """
    current = _current.get()
    if current is not None:
        current.budget.release(current.response, min(size, current.response.size))


@asynccontextmanager
async def reserved(size: int) -> AsyncIterator[None]:
    """Reserve bytes for the time of a block; see `reserve`.

    Args:
        size: number of bytes.

    Raises:
        Overloaded: there was no room in time.
    """
    current = _current.get()
    before = 0 if current is None else current.response.size
    await reserve(size)
    try:
        yield
    finally:
        if current is not None:
            give_back(current.response.size - before)


async def hold(size: int) -> None:
    """Set the number of bytes that the request in progress holds of a body that it receives without an end.

    Args:
        size: their number.

    Raises:
        Overloaded: there was no room for more in time.
    """
    current = _current.get()
    if current is None:
        return
    if size > current.body.size:
        await current.budget.take(current.body, size)
    else:
        shrink(size)


def shrink(size: int) -> None:
    """Give back what the request in progress does not hold any more.

    Args:
        size: the number of bytes that it holds.
    """
    current = _current.get()
    if current is not None and size < current.body.size:
        current.budget.release(current.body, current.body.size - size)
