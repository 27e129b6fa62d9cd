"""A budget for the bytes of all bodies in flight together: requests that are received or processed, and responses.

A request takes its share before its body is received. Without room it waits, in turn with other callers. While it
waits, slow transfers lose their share: a transfer is slow if its pace would not complete the body within the time of a
request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from prometheus_client import Counter

from ragstore.kit.errors import BodyTooLarge, Overloaded
from ragstore.kit.fair_queue import FairQueue

MAX_WAIT_SECONDS: Final = 5.0
"""Maximum wait for a share; then the response is 503."""

FREE_BYTES: Final = 64 * 1024
"""Size of a body, of a chunk of a response, or of a reservation that takes no share of the budget."""

SWEEP_SECONDS: Final = 1.0
"""How often the pace of senders and readers is measured while requests wait."""


class Share:
    """The bytes of one request in the budget.

    Attributes:
        size: its bytes.
        closed: whether its request has ended. Work that continues, for another caller, takes no bytes any more.
    """

    def __init__(self) -> None:
        self.size = 0
        self.closed = False
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


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    """A request that waits for bytes of its share."""

    turn: asyncio.Future[None]
    share: Share
    size: int


class ByteBudget:
    """The bytes of all bodies in flight. Those who wait for room get it in turn by caller.

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
        self._waiting: FairQueue[_Waiter] = FairQueue()
        self._sweeping: asyncio.TimerHandle | None = None

    async def take(self, share: Share, size: int) -> None:
        """Make a share larger, and wait until there is room for it.

        Args:
            size: its new size.

        Raises:
            BodyTooLarge: it is larger than the whole budget.
            Overloaded: there was no room in time.
        """
        if size > self.max_bytes:
            raise BodyTooLarge(f"The body must not be larger than {self.max_bytes} bytes, the budget of all bodies")
        if share.closed:
            return
        added = size - share.size
        if not self._waiting and self._used + added <= self.max_bytes:
            self.add(share, added)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        remove = self._waiting.put(_Waiter(turn, share, added))
        self._sweep_later()
        try:
            async with asyncio.timeout(min(MAX_WAIT_SECONDS, self._timeout_seconds)):
                await turn
        except TimeoutError:
            if not turn.done() or turn.cancelled():
                self._rejected.inc()
                raise Overloaded("Too many bytes of bodies are in flight") from None
        finally:
            if remove():
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
        if size and not share.closed:
            share.size += size
            self._used += size
            self._shares.add(share)

    def release(self, share: Share, size: int | None = None) -> None:
        """Give bytes of a share back, and let others have them.

        Args:
            size: their number; all if None, or if the share has fewer.
        """
        size = share.size if size is None else min(size, share.size)
        share.size -= size
        self._used -= size
        if share.size == 0:
            self._shares.discard(share)
        self._wake()

    def close(self, share: Share) -> None:
        """Give all bytes of a share back. It takes none any more."""
        share.closed = True
        self.release(share)

    def _wake(self) -> None:
        """Give shares to waiting requests, in turn by caller."""
        while self._waiting:
            pending = self._waiting.head()
            if not pending.turn.done():
                if self._used + pending.size > self.max_bytes:
                    return
                self.add(pending.share, pending.size)
                pending.turn.set_result(None)
            self._waiting.pop()

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
        needed = self._used + self._waiting.head().size - self.max_bytes
        for _, share in sorted(paces, key=lambda entry: entry[0]):
            if needed <= 0:
                break
            needed -= share.size
            if share.evict is not None:
                share.evict()
            share.complete()


@dataclass(slots=True)
class _Request:
    """The shares of a request in progress.

    Attributes:
        budget: the budget of all bodies.
        body: the share of the request's body.
        response: the share of its response.
        reserved: bytes of the response's share that were reserved.
        held: bytes of temporary copies, of which those beyond the reservation are in the share, too.
    """

    budget: ByteBudget
    body: Share
    response: Share
    reserved: int = 0
    held: int = 0

    def hold_copies(self, size: int) -> None:
        """Count bytes of temporary copies; a negative number for released copies."""
        before = max(0, self.held - self.reserved)
        self.held += size
        added = max(0, self.held - self.reserved) - before
        if added > 0:
            self.budget.add(self.response, added)
        else:
            self.budget.release(self.response, -added)


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
        budget.close(body)
        budget.close(response)


async def reserve(size: int) -> None:
    """Reserve bytes for what the request in progress is about to make: its response, and copies made on the way to it.

    Call it before the work begins, with an estimate. The reservation ends with the request. An estimate beyond the
    whole budget reserves the whole budget, so that a legal request is served when it is alone. Up to `FREE_BYTES` are
    reserved without waiting.

    Args:
        size: number of bytes, in addition to those reserved before.

    Raises:
        Overloaded: there was no room in time.
    """
    current = _current.get()
    if current is None or size <= FREE_BYTES:
        return
    share = current.response
    before = share.size
    wanted = min(before + size, current.budget.max_bytes)
    await current.budget.take(share, wanted)
    current.reserved += wanted - before


@contextmanager
def temporary_copies() -> Iterator[Callable[[int], None]]:
    """Count bytes that exist while the block runs, such as a provider's response. They are a part of the reservation.

    They exist already, so they never wait: a request that holds some and waits for more could hold up those it waits
    for.

    Yields:
        A function that counts further bytes.
    """
    current = _current.get()
    total = 0

    def count(size: int) -> None:
        nonlocal total
        if current is not None:
            total += size
            current.hold_copies(size)

    try:
        yield count
    finally:
        if current is not None:
            current.hold_copies(-total)


def give_back(size: int) -> None:
    """Give back what the request in progress has reserved and does not need, or does not hold any more.

    Args:
        size: number of bytes; all that it has reserved if it has reserved less.
    """
    current = _current.get()
    if current is not None and size > 0:
        size = min(size, current.reserved)
        current.reserved -= size
        current.budget.release(current.response, size)


@asynccontextmanager
async def reserved(size: int) -> AsyncIterator[None]:
    """Reserve bytes for the time of a block; see `reserve`.

    Args:
        size: number of bytes.

    Raises:
        Overloaded: there was no room in time.
    """
    current = _current.get()
    before = 0 if current is None else current.reserved
    await reserve(size)
    try:
        yield
    finally:
        if current is not None:
            give_back(current.reserved - before)


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
