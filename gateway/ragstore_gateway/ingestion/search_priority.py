"""`SearchPriority`: ingestions wait for searches."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Final, Generic, TypeVar

from ragstore_gateway.engines.engine_collection import EngineCollection, Record
from ragstore_gateway.ingestion.errors import LeaseLost
from ragstore_gateway.store.store_queries import StoreQueries

T = TypeVar("T")

PAUSE_SECONDS: Final = 0.1
"""Maximum time that ingestions wait for several searches."""

WINDOW_SECONDS: Final = 0.01
"""How long ingestions continue beside searches after such a time."""

LONG_SEARCH_SECONDS: Final = 0.25
"""Maximum time that ingestions wait for one search, and how long they continue beside it then. It waits for a provider
or an engine, and not for the event loop."""

RECENT_SECONDS: Final = 1.0
"""How long after a search, of this process or of another one, records are written in small parts."""

SMALL_WRITE: Final = 2
"""Number of records of a write while there are searches: the engine may have embedded Chroma, which executes one call
at a time, so that a search waits for the write in progress. Beside searches on two cores, a write of 4 records takes
25 ms and one of 8 records 33 ms (median, 1.5.9). The 99th percentile of a search was twice as long as on an idle
gateway with 3 records, and is 1.8 times as long with 2, at two thirds of the rate."""

REST: Final = 2.0
"""How long the next write waits after a small one, as a multiple of its time: a search meets one write at most."""

MAX_REST_SECONDS: Final = 0.05
"""Maximum time of such a wait. On a busy machine writes take longer, and ingestions must end."""

GAP_SECONDS: Final = 0.05
"""Writes pause after a write if the last search was as recent as this when it ended."""


class SearchPriority:
    """Delays ingestions of this process while it searches, and divides their writes while any process does.

    Both run on one event loop. A search takes about 15 turns of it, and each turn would wait for the steps of all
    ingestions and of their transactions.

    Args:
        queries: the queries of the gateway's store by any process; None if it is in this process.
    """

    def __init__(self, queries: StoreQueries | None = None) -> None:
        self._queries = queries
        self._searches = 0
        self._searched_at = float("-inf")
        self._pause_began = 0.0
        self._paused_seconds = 0.0
        self._window_ends = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._writing = asyncio.Lock()
        self._rest_ends = 0.0

    @contextmanager
    def search(self) -> Iterator[None]:
        """A search, for the time of a block. A search may be a part of another one."""
        now = asyncio.get_running_loop().time
        if not self._searches:
            self._pause_began = now()
            if self._waiting:
                self._set_timer()
        self._searches += 1
        try:
            yield
        finally:
            self._searches -= 1
            self._searched_at = now()
            if not self._searches:
                self._paused_seconds += max(0.0, self._searched_at - self._pause_began)
                self._continue_next()

    async def pausing(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, whose steps wait for searches. A step ends where the coroutine waits.

        Tasks that the coroutine creates do not wait, unless they are `pausing`, too.
        """
        return await _Pausing(self, coroutine)

    async def write(self, store: EngineCollection, records: Sequence[Record], may_write: Callable[[], bool]) -> None:
        """Store records: with one write, or in small parts while there are searches.

        Args:
            may_write: whether this process may still write, which is checked before each part.

        Raises:
            LeaseLost: it may not.
            ServiceError: the engine failed. It may have some of the records.
        """
        now = asyncio.get_running_loop().time
        left = records
        while left:
            async with self._writing if self._is_searched_within(RECENT_SECONDS) else nullcontext():
                if (rest := self._rest_ends - now()) > 0:
                    await asyncio.sleep(rest)
                if not may_write():
                    raise LeaseLost
                part = left[:SMALL_WRITE] if self._is_searched_within(RECENT_SECONDS) else left
                began = now()
                await store.write(part)
                if self._is_searched_within(GAP_SECONDS):
                    self._rest_ends = now() + min(REST * (now() - began), MAX_REST_SECONDS)
            left = left[len(part) :]

    @property
    def is_paused(self) -> bool:
        """Whether the next step has to wait."""
        return self._searches > 0 and asyncio.get_running_loop().time() >= self._window_ends

    async def turn(self) -> None:
        """Wait for the end of a pause. The steps that wait run one after the other."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            self._set_timer()
        try:
            await turn
        except asyncio.CancelledError:
            # The turn may have come together with the cancellation.
            if turn.done() and not turn.cancelled():
                self._continue_next()
            raise

    def step_ended(self) -> None:
        """Let the next step run that waits."""
        if self._waiting:
            self._continue_next()

    def _is_searched_within(self, seconds: float) -> bool:
        """Whether a process searches, or may have searched within a time."""
        if self._queries is not None and self._queries.may_be_within(seconds):
            return True
        return self._searches > 0 or asyncio.get_running_loop().time() < self._searched_at + seconds

    def _continue_next(self) -> None:
        if self.is_paused:
            return
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._paused_seconds = 0.0

    def _set_timer(self) -> None:
        """Open a window at the end of the pause. The timer of an earlier pause, which may have ended, is replaced."""
        if self._timer is not None:
            self._timer.cancel()
        seconds = PAUSE_SECONDS - self._paused_seconds if self._paused_seconds else LONG_SEARCH_SECONDS
        self._timer = asyncio.get_running_loop().call_at(self._pause_began + seconds, self._open_window)

    def _open_window(self) -> None:
        self._timer = None
        if self._waiting and self._searches:
            seconds = WINDOW_SECONDS if self._paused_seconds else LONG_SEARCH_SECONDS
            self._window_ends = self._pause_began = asyncio.get_running_loop().time() + seconds
            self._paused_seconds = 0.0
            self._continue_next()
            self._set_timer()


class _Pausing(Generic[T]):
    """Runs a coroutine step by step.

    Args:
        priority: delays the steps.
    """

    def __init__(self, priority: SearchPriority, coroutine: Coroutine[Any, Any, T]) -> None:
        self._priority = priority
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, None, T]:
        send = step = partial(self._coroutine.send, None)
        may_pause = True
        try:
            while True:
                if may_pause and self._priority.is_paused:
                    yield from self._priority.turn().__await__()
                try:
                    awaited = step()
                except StopIteration as stop:
                    result: T = stop.value
                    return result
                finally:
                    self._priority.step_ended()
                step = send
                # No pause after `sleep(0)`: anyio's locks call it after they are acquired, and a search would wait for
                # the lock of a paused coroutine, such as the lock of a connection to the store.
                may_pause = awaited is not None
                try:
                    yield awaited
                except BaseException as error:  # noqa: BLE001  # the coroutine gets it, without a pause
                    step, may_pause = partial(self._coroutine.throw, error), False
        finally:
            self._coroutine.close()
