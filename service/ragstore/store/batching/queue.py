"""`Line`: callers that wait for the same thing, and leave for Chroma together.

There is no timer: a caller who is alone waits for nobody. Where several were answered at once, the next call leaves
when those have come back who do so at once. A line is served by tasks that end when it is empty. Each waiter has a
future of its own. One whose caller left before its turn is dropped. When what left together fails, each part is tried
by itself, so that nobody pays for a neighbour.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar, get_args

from prometheus_client import Histogram

from ragstore.errors import ChromaTimeout, ChromaUnavailable, DimensionMismatch, InvalidFilter
from ragstore.kit.context import backend_timing
from ragstore.kit.deferred_metrics import record
from ragstore.kit.errors import NotFound
from ragstore.store.batching.tracer import BatchTracer, Kind

Asked = TypeVar("Asked")
Told = TypeVar("Told")

SHARED: Final = (ChromaUnavailable, ChromaTimeout, NotFound, DimensionMismatch, InvalidFilter)
"""Errors that have nothing to do with one caller's part: trying the parts apart would only repeat them. Those who leave
together have one dimension and one filter."""

QUIET_TURNS: Final = 4
"""Turns of the event loop without a newcomer after which nobody more is expected: one to answer a caller, one to read
its next request, one to work on that, and one to spare."""

MERGED_BYTES: Final = 8 * 1024 * 1024
"""Most bytes of embeddings and texts in one merged write."""

WAIT_SECONDS: Final = Histogram(
    "ragstore_coalescing_wait_seconds",
    "Time that a write or query waited until it left for Chroma.",
    ["kind"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
MERGED: Final = Histogram(
    "ragstore_coalesced_calls",
    "Writes or queries that left for Chroma as one.",
    ["kind"],
    buckets=(1, 2, 4, 8, 16, 32, 64, 128),
)
DOCUMENTS: Final = Histogram(
    "ragstore_coalesced_documents",
    "Documents in one write that left for Chroma.",
    buckets=(1, 4, 16, 64, 256, 1024, 4096, 16384),
)
_WAIT_SECONDS: Final = {kind: WAIT_SECONDS.labels(kind) for kind in get_args(Kind)}
_MERGED: Final = {kind: MERGED.labels(kind) for kind in get_args(Kind)}


@dataclass(slots=True, eq=False)
class PendingRequest(Generic[Asked, Told]):
    """One caller in a line.

    Attributes:
        asked: what the caller wants.
        count: documents or queries in it.
        size: its bytes.
        alike: what those who leave with it must have in common; None when it leaves alone.
        caller: who it is, for the follower.
        since: when it joined.
        answer: where the caller waits.
    """

    asked: Asked
    count: int
    size: int
    alike: str | None
    caller: object = None
    since: float = field(default_factory=time.perf_counter)
    answer: asyncio.Future[Told] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Line(Generic[Asked, Told]):
    """Callers that wait for the same thing, and the tasks that serve them.

    Args:
        kind: what they wait for.
        collection: its collection's name.
        follower: follows them.
        serve: answers some waiters, in their order, by setting their futures.
        most: most documents or queries to serve at once.
        servers: most servings at the same time; 1 keeps an order.
        enough: documents or queries that are worth a call, however many more may come.
        ended: called when the line is empty and nobody is served.
    """

    def __init__(
        self,
        kind: Kind,
        collection: str,
        follower: BatchTracer,
        serve: Callable[[list[PendingRequest[Asked, Told]]], Awaitable[None]],
        most: int,
        servers: int,
        enough: int,
        ended: Callable[[], object],
    ) -> None:
        self._kind = kind
        self._collection = collection
        self._follower = follower
        self._serve = serve
        self._most = most
        self._servers = servers
        self._enough = enough
        self._ended = ended
        self._waiting: deque[PendingRequest[Asked, Told]] = deque()
        self._under_way: set[PendingRequest[Asked, Told]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    async def join(self, waiter: PendingRequest[Asked, Told]) -> Told:
        """Wait for an answer.

        Args:
            waiter: the caller.

        Returns:
            Its answer.
        """
        waiter.caller = self._follower.caller()
        self._waiting.append(waiter)
        if len(self._tasks) < self._servers:
            # A context of its own: the task outlives the request that starts it.
            task = asyncio.create_task(self._work(), context=contextvars.Context())
            self._tasks.add(task)
        try:
            with backend_timing():
                return await waiter.answer
        finally:
            if waiter.answer.cancelled():
                with suppress(ValueError):
                    self._waiting.remove(waiter)

    async def finish(self) -> None:
        """Serve those who still wait; a call that nobody waits for is given up."""
        while self._tasks:
            if all(waiter.answer.done() for waiter in (*self._under_way, *self._waiting)):
                for task in self._tasks:
                    task.cancel()
            done, _ = await asyncio.wait(self._tasks)
            self._tasks -= done

    async def _work(self) -> None:
        try:
            while batch := self._next():
                self._under_way.update(batch)
                count = self._measure(batch)
                callers = [waiter.caller for waiter in batch]
                try:
                    with self._follower.together(self._kind, self._collection, callers, count):
                        await self._answer(batch)
                except asyncio.CancelledError:
                    # The call was given up, not this task: its callers are told, and the others have their turn.
                    fail(batch, ChromaUnavailable("Chroma is being let go of"))
                except Exception as error:  # noqa: BLE001  # whatever it is must reach its callers, not this task
                    fail(batch, error)
                finally:
                    self._under_way.difference_update(batch)
                if len(batch) > 1 or self._waiting:
                    # Given up while it waits for others, the task still serves those who came.
                    with suppress(asyncio.CancelledError):
                        await self._gather()
        finally:
            self._tasks -= {asyncio.current_task()}
            if not self._tasks:
                self._ended()

    async def _gather(self) -> None:
        """Let those who were answered come back, so that they leave together with those who wait already.

        Callers who all ask again would otherwise part into two halves that never meet. What they need for it is turns
        of the event loop, so that is what is waited for, and only while it brings somebody.
        """
        quiet = 0
        while quiet < QUIET_TURNS and not self._has_enough():
            waiting = len(self._waiting)
            await asyncio.sleep(0)
            quiet = 0 if len(self._waiting) > waiting else quiet + 1

    def _has_enough(self) -> bool:
        """Whether those who wait are worth a call. What names no documents counts, too, so that waiting ends."""
        return sum(max(waiter.count, 1) for waiter in self._waiting) >= self._enough

    def _measure(self, batch: list[PendingRequest[Asked, Told]]) -> int:
        """Tell who leaves together, and how many documents or queries that is."""
        now = time.perf_counter()
        for waiter in batch:
            record(_WAIT_SECONDS[self._kind].observe, now - waiter.since)
        record(_MERGED[self._kind].observe, len(batch))
        count = sum(waiter.count for waiter in batch)
        if self._kind == "write" and count:
            record(DOCUMENTS.observe, count)
        return count

    async def _answer(self, batch: list[PendingRequest[Asked, Told]]) -> None:
        """Serve waiters together and, when that fails, each by itself."""
        try:
            await self._serve(batch)
        except SHARED:
            raise
        except Exception:
            if len(batch) == 1:
                raise
            for waiter in batch:
                if not waiter.answer.done():
                    await self._apart(waiter)

    async def _apart(self, waiter: PendingRequest[Asked, Told]) -> None:
        try:
            await self._serve([waiter])
        except SHARED:
            raise
        except Exception as error:  # noqa: BLE001  # as above
            fail([waiter], error)

    def _next(self) -> list[PendingRequest[Asked, Told]]:
        """Those who leave together: as many as fit, in their order, less those who left."""
        batch: list[PendingRequest[Asked, Told]] = []
        count = size = 0
        while self._waiting:
            waiter = self._waiting[0]
            if waiter.answer.cancelled():
                self._waiting.popleft()
                continue
            full = count + waiter.count > self._most or size + waiter.size > MERGED_BYTES
            if batch and (full or waiter.alike is None or waiter.alike != batch[0].alike):
                break
            batch.append(self._waiting.popleft())
            count += waiter.count
            size += waiter.size
        return batch


def fail(waiters: Sequence[PendingRequest[Asked, Told]], error: Exception) -> None:
    """Give callers who still wait an error.

    Args:
        waiters: the callers.
        error: what they are told.
    """
    for waiter in waiters:
        if not waiter.answer.done():
            waiter.answer.set_exception(error)


def tell(waiter: PendingRequest[Asked, Told], answer: Told) -> None:
    """Give a caller who still waits an answer.

    Args:
        waiter: the caller.
        answer: what it is told.
    """
    if not waiter.answer.done():
        waiter.answer.set_result(answer)
