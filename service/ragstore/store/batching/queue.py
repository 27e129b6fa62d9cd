"""`BatchQueue`: requests that wait for the same collection, and are sent to Chroma in batches.

There is no timer: a lone request never waits. After a batch of several requests completes, the queue waits a few turns
of the event loop, so that clients that send their next request immediately join the next batch (see
`BatchQueue._wait_for_more`). A queue is served by worker tasks that end when it is empty. Each request has a future of
its own. A request whose client disconnects before its batch is sent is dropped. When a batch fails, each of its
requests is sent again by itself, so that no request fails because of another one.
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

from ragstore.errors import ChromaTimeout, ChromaUnavailable, DimensionMismatch
from ragstore.filters.grammar import InvalidFilter
from ragstore.kit.context import backend_timing
from ragstore.kit.deferred_metrics import record
from ragstore.kit.errors import NotFound
from ragstore.store.batching.tracer import BatchTracer, Kind

Request = TypeVar("Request")
Response = TypeVar("Response")

SHARED_ERRORS: Final = (ChromaUnavailable, ChromaTimeout, NotFound, DimensionMismatch, InvalidFilter)
"""Errors that concern the whole batch: sending its requests one by one would only repeat them. All requests of a batch
have the same dimension and the same filter."""

MAX_IDLE_TURNS: Final = 4
"""Consecutive turns of the event loop without a new request after which the next batch is sent: one to deliver a
response, one to read the client's next request, one to process it, and one in reserve."""

MAX_BATCH_BYTES: Final = 8 * 1024 * 1024
"""Maximum number of bytes of embeddings and texts in one batch, unless a single request is larger."""

WAIT_SECONDS: Final = Histogram(
    "ragstore_coalescing_wait_seconds",
    "Time that a write or query waited for its batch to be sent to Chroma.",
    ["kind"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
BATCH_REQUESTS: Final = Histogram(
    "ragstore_coalesced_calls",
    "Writes or queries in one batch.",
    ["kind"],
    buckets=(1, 2, 4, 8, 16, 32, 64, 128),
)
BATCH_DOCUMENTS: Final = Histogram(
    "ragstore_coalesced_documents",
    "Documents in one batch of writes.",
    buckets=(1, 4, 16, 64, 256, 1024, 4096, 16384),
)
_WAIT_SECONDS: Final = {kind: WAIT_SECONDS.labels(kind) for kind in get_args(Kind)}
_BATCH_REQUESTS: Final = {kind: BATCH_REQUESTS.labels(kind) for kind in get_args(Kind)}


@dataclass(slots=True, eq=False)
class PendingRequest(Generic[Request, Response]):
    """A request in a queue, or in the batch that is in flight.

    Attributes:
        request: the request.
        count: number of documents or queries in it.
        size_bytes: bytes of its embeddings and texts.
        batch_key: requests with equal keys may share a batch; with None, the request is sent by itself.
        trace_context: its trace, as captured by the tracer.
        submitted_at: when it was submitted, by `time.perf_counter`.
        response: set when the response, or an error, is known.
    """

    request: Request
    count: int
    size_bytes: int
    batch_key: str | None
    trace_context: object = None
    submitted_at: float = field(default_factory=time.perf_counter)
    response: asyncio.Future[Response] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def resolve(self, response: Response) -> None:
        """Set the response, unless the client disconnected or there is one."""
        if not self.response.done():
            self.response.set_result(response)

    def fail(self, error: Exception) -> None:
        """Set an error, unless the client disconnected or there is a response."""
        if not self.response.done():
            self.response.set_exception(error)


class BatchQueue(Generic[Request, Response]):
    """A queue of requests, and the worker tasks that send them in batches.

    Args:
        kind: the kind of requests.
        collection: the collection's name.
        tracer: traces the batches.
        send: sends a batch and resolves each of its requests.
        max_batch: maximum number of documents or queries in a batch, unless a single request has more.
        concurrency: maximum number of batches in flight; 1 keeps the order of the requests.
        min_batch: number of documents or queries for which a batch is sent without waiting for more.
        on_empty: called when no request is queued or in flight.
    """

    def __init__(
        self,
        kind: Kind,
        collection: str,
        tracer: BatchTracer,
        send: Callable[[list[PendingRequest[Request, Response]]], Awaitable[None]],
        max_batch: int,
        concurrency: int,
        min_batch: int,
        on_empty: Callable[[], object],
    ) -> None:
        self._kind = kind
        self._collection = collection
        self._tracer = tracer
        self._send = send
        self._max_batch = max_batch
        self._concurrency = concurrency
        self._min_batch = min_batch
        self._on_empty = on_empty
        self._queued: deque[PendingRequest[Request, Response]] = deque()
        self._in_flight: set[PendingRequest[Request, Response]] = set()
        self._workers: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Number of requests that wait for their batch."""
        return len(self._queued)

    async def submit(self, pending: PendingRequest[Request, Response]) -> Response:
        """Queue a request and wait for its response."""
        pending.trace_context = self._tracer.capture()
        self._queued.append(pending)
        if len(self._workers) < self._concurrency:
            # A context of its own: the task outlives the request that starts it.
            worker = asyncio.create_task(self._work(), context=contextvars.Context())
            self._workers.add(worker)
        try:
            with backend_timing():
                return await pending.response
        finally:
            if pending.response.cancelled():
                with suppress(ValueError):
                    self._queued.remove(pending)

    async def drain(self) -> None:
        """Wait until the queue is empty. A call whose clients have all disconnected is cancelled."""
        while self._workers:
            if all(pending.response.done() for pending in (*self._in_flight, *self._queued)):
                for worker in self._workers:
                    worker.cancel()
            done, _ = await asyncio.wait(self._workers)
            self._workers -= done

    async def _work(self) -> None:
        try:
            while batch := self._next_batch():
                self._in_flight.update(batch)
                count = self._record(batch)
                contexts = [pending.trace_context for pending in batch]
                try:
                    with self._tracer.batch_span(self._kind, self._collection, contexts, count):
                        await self._send_batch(batch)
                except asyncio.CancelledError:
                    # The call was cancelled, not the worker: its requests fail, and those in the queue are sent.
                    _fail_all(batch, ChromaUnavailable("The service is closing its connection to Chroma"))
                except Exception as error:  # noqa: BLE001  # any error must reach the clients, and not end the worker
                    _fail_all(batch, error)
                finally:
                    self._in_flight.difference_update(batch)
                if len(batch) > 1 or self._queued:
                    # A worker that is cancelled while it waits still sends the requests that are queued.
                    with suppress(asyncio.CancelledError):
                        await self._wait_for_more()
        finally:
            self._workers -= {asyncio.current_task()}
            if not self._workers:
                self._on_empty()

    async def _wait_for_more(self) -> None:
        """Wait until clients that received a response have sent their next request, if they send one immediately.

        Without this wait, clients that send one request after the other split into two halves that alternate for ever.
        With eight clients, a to h:

            in flight       queued          sent next
            [a b c d]       e f g h         batch 2: e f g h    a to d have a response, and their next requests arrive
            [e f g h]       a b c d         batch 3: a b c d    just after batch 2 was sent; then the same with e to h
            [a b c d]       e f g h         ...                 each batch has half the size that it could have

        With this wait, the next requests of a to d arrive before batch 2 is sent:

            [a b c d]       e f g h a b c d
            [e f g h a b c d]

        32 clients with single writes made batches of 16 and 16 before, at three quarters of the rate. A client's next
        request needs a few turns of the event loop, and no time apart from that. The wait is therefore counted in
        turns: it ends after `MAX_IDLE_TURNS` turns without a new request, or as soon as there are enough requests for
        a batch.
        """
        idle_turns = 0
        while idle_turns < MAX_IDLE_TURNS and not self._has_min_batch():
            queued = len(self._queued)
            await asyncio.sleep(0)
            idle_turns = 0 if len(self._queued) > queued else idle_turns + 1

    def _has_min_batch(self) -> bool:
        """Whether enough is queued for a batch. A request without documents counts as one, so that the wait ends."""
        return sum(max(pending.count, 1) for pending in self._queued) >= self._min_batch

    def _record(self, batch: list[PendingRequest[Request, Response]]) -> int:
        """Record metrics of a batch that is about to be sent, and return its number of documents or queries."""
        now = time.perf_counter()
        for pending in batch:
            record(_WAIT_SECONDS[self._kind].observe, now - pending.submitted_at)
        record(_BATCH_REQUESTS[self._kind].observe, len(batch))
        count = sum(pending.count for pending in batch)
        if self._kind == "write" and count:
            record(BATCH_DOCUMENTS.observe, count)
        return count

    async def _send_batch(self, batch: list[PendingRequest[Request, Response]]) -> None:
        """Send a batch and, when that fails, each of its requests by itself."""
        try:
            await self._send(batch)
        except SHARED_ERRORS:
            raise
        except Exception:
            if len(batch) == 1:
                raise
            for pending in batch:
                if not pending.response.done():
                    await self._send_alone(pending)

    async def _send_alone(self, pending: PendingRequest[Request, Response]) -> None:
        try:
            await self._send([pending])
        except SHARED_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001  # as in `_work`
            pending.fail(error)

    def _next_batch(self) -> list[PendingRequest[Request, Response]]:
        """Take the next batch from the queue, in order, without the requests whose clients disconnected."""
        batch: list[PendingRequest[Request, Response]] = []
        count = size_bytes = 0
        while self._queued:
            pending = self._queued[0]
            if pending.response.cancelled():
                self._queued.popleft()
                continue
            is_full = count + pending.count > self._max_batch or size_bytes + pending.size_bytes > MAX_BATCH_BYTES
            if batch and (is_full or pending.batch_key is None or pending.batch_key != batch[0].batch_key):
                break
            batch.append(self._queued.popleft())
            count += pending.count
            size_bytes += pending.size_bytes
        return batch


def _fail_all(batch: Sequence[PendingRequest[Request, Response]], error: Exception) -> None:
    for pending in batch:
        pending.fail(error)
