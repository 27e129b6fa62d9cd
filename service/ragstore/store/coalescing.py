"""`CoalescingStore`: a store that asks Chroma fewer, larger questions when many callers ask at once.

Chroma's cost is for each call far more than for each record or query vector. So while one write to a collection is
under way, those that arrive wait, and leave together as one; queries with the same filters likewise. There is no
timer: a caller who is alone waits for nobody.

A line of waiters is served by tasks that end when it is empty, writes by one, so that they keep their order. Each
waiter has a future of its own. One whose caller left before its turn is dropped. When what left together fails, each
part is tried by itself, so that nobody pays for a neighbour.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec

from ragstore.errors import (
    ChromaTimeout,
    ChromaUnavailable,
    DimensionMismatch,
    InvalidFilter,
    NotFound,
    Overloaded,
    RagstoreError,
)
from ragstore.filters import where as metadata_filter
from ragstore.filters import where_document as document_filter
from ragstore.store.base import Found, Query, Selection, Store, Write
from ragstore.store.clock import in_store
from ragstore.store.wrapping import WrappingStore

Asked = TypeVar("Asked")
Told = TypeVar("Told")
T = TypeVar("T")

MERGED_QUERIES: Final = 64
"""Most query vectors in one call. Beyond that a call lasts longer than its callers would have waited."""

SHARED: Final = (ChromaUnavailable, ChromaTimeout, NotFound, DimensionMismatch, InvalidFilter)
"""Errors that have nothing to do with one caller's part: trying the parts apart would only repeat them. Those who leave
together have one dimension and one filter."""

QUERIES_UNDER_WAY: Final = 2
"""Merged queries of one kind under way at once: Chroma works on one while the answers to the other are sent."""

MERGED_BYTES: Final = 8 * 1024 * 1024
"""Most bytes of embeddings and texts in one merged write."""


@dataclass(slots=True, eq=False)
class Waiter(Generic[Asked, Told]):
    """One caller in a line.

    Attributes:
        asked: what the caller wants.
        count: documents or queries in it.
        size: its bytes.
        alone: whether it must not be merged with others.
        answer: where the caller waits.
    """

    asked: Asked
    count: int
    size: int
    alone: bool
    answer: asyncio.Future[Told] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Line(Generic[Asked, Told]):
    """Callers that wait for the same thing, and the tasks that serve them.

    Args:
        serve: answers some waiters, in their order, by setting their futures.
        most: most documents or queries to serve at once.
        servers: most servings at the same time; 1 keeps an order.
        ended: called when the line is empty and nobody is served.
    """

    def __init__(
        self,
        serve: Callable[[list[Waiter[Asked, Told]]], Awaitable[None]],
        most: int,
        servers: int,
        ended: Callable[[], object],
    ) -> None:
        self._serve = serve
        self._most = most
        self._servers = servers
        self._ended = ended
        self._waiting: deque[Waiter[Asked, Told]] = deque()
        self._under_way: set[Waiter[Asked, Told]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def join(self, waiter: Waiter[Asked, Told]) -> Told:
        """Wait for an answer.

        Args:
            waiter: the caller.

        Returns:
            Its answer.
        """
        self._waiting.append(waiter)
        if len(self._tasks) < self._servers:
            # A context of its own: the task outlives the request that starts it.
            task = asyncio.create_task(self._work(), context=contextvars.Context())
            self._tasks.add(task)
        try:
            with in_store():
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
                try:
                    await self._answer(batch)
                except asyncio.CancelledError:
                    # The call was given up, not this task: its callers are told, and the others have their turn.
                    _fail(batch, ChromaUnavailable("Chroma is being let go of"))
                except Exception as error:  # noqa: BLE001  # whatever it is must reach its callers, not this task
                    _fail(batch, error)
                finally:
                    self._under_way.difference_update(batch)
        finally:
            self._tasks -= {asyncio.current_task()}
            if not self._tasks:
                self._ended()

    async def _answer(self, batch: list[Waiter[Asked, Told]]) -> None:
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

    async def _apart(self, waiter: Waiter[Asked, Told]) -> None:
        try:
            await self._serve([waiter])
        except SHARED:
            raise
        except Exception as error:  # noqa: BLE001  # as above
            _fail([waiter], error)

    def _next(self) -> list[Waiter[Asked, Told]]:
        """Those who leave together: as many as fit, in their order, less those who left."""
        batch: list[Waiter[Asked, Told]] = []
        count = size = 0
        while self._waiting:
            waiter = self._waiting[0]
            if waiter.answer.cancelled():
                self._waiting.popleft()
                continue
            full = count + waiter.count > self._most or size + waiter.size > MERGED_BYTES
            if batch and (full or waiter.alone or batch[0].alone):
                break
            batch.append(self._waiting.popleft())
            count += waiter.count
            size += waiter.size
        return batch


def _fail(waiters: Sequence[Waiter[Asked, Told]], error: Exception) -> None:
    for waiter in waiters:
        if not waiter.answer.done():
            waiter.answer.set_exception(error)


def _tell(waiter: Waiter[Asked, Told], answer: Told) -> None:
    if not waiter.answer.done():
        waiter.answer.set_result(answer)


Change = Write | Selection
"""What waits in a collection's line of writes: documents to write, or a selection to delete."""

Outcome = RagstoreError | int | None
"""What a change is told: an error, how many documents were deleted, or nothing."""


class CoalescingStore(WrappingStore):
    """A store that merges what callers ask at the same time; see `Store` for what each method promises.

    Args:
        inner: the store that is wrapped.
        max_batch_size: most documents in one merged write.
        queued_writes: most writes that wait; a further one is refused.
        queued_bytes: most bytes of embeddings and texts that wait; what exceeds them is refused.
    """

    def __init__(self, inner: Store, max_batch_size: int, queued_writes: int, queued_bytes: int) -> None:
        super().__init__(inner)
        self._max_batch_size = max_batch_size
        self._queued_writes = queued_writes
        self._queued_bytes = queued_bytes
        self._writes = 0
        self._bytes = 0
        self._change_lines: dict[str, Line[Change, Outcome]] = {}
        self._query_lines: dict[tuple[str, bytes], Line[Query, Found]] = {}

    async def close(self) -> None:
        """Finish what is under way and let go of Chroma."""
        await asyncio.gather(*(line.finish() for line in self._change_lines.values()))
        await asyncio.gather(*(line.finish() for line in self._query_lines.values()))
        await super().close()

    async def write(self, name: str, writes: Sequence[Write]) -> list[RagstoreError | None]:
        """Write several batches, each with an outcome of its own."""
        return await _all([self._written(name, write) for write in writes])

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents. It keeps its place among the writes, so that none of the same id is overtaken."""
        deleted = await self._change(name, selection)
        return deleted if isinstance(deleted, int) else 0

    async def query(self, name: str, queries: Sequence[Query]) -> Found:
        """Find the nearest documents."""
        found = await _all([self._query(name, query) for query in queries])
        return Found(found[0].collection, [hits for part in found for hits in part.hits])

    async def _written(self, name: str, write: Write) -> RagstoreError | None:
        try:
            outcome = await self._change(name, write)
        except RagstoreError as error:
            return error
        return outcome if isinstance(outcome, RagstoreError) else None

    async def _change(self, name: str, change: Change) -> Outcome:
        count, size = (len(change.batch), _size(change)) if isinstance(change, Write) else (0, 0)
        if self._writes >= self._queued_writes or (self._writes and self._bytes + size > self._queued_bytes):
            raise Overloaded("Too many writes are waiting")
        self._writes += 1
        self._bytes += size
        try:
            line = self._change_lines.get(name)
            if line is None:
                line = self._change_lines[name] = Line(
                    lambda waiters: self._serve_changes(name, waiters),
                    self._max_batch_size,
                    1,
                    lambda: self._change_lines.pop(name, None),
                )
            return await line.join(Waiter(change, count, size, alone=isinstance(change, Selection)))
        finally:
            self._writes -= 1
            self._bytes -= size

    async def _serve_changes(self, name: str, waiters: list[Waiter[Change, Outcome]]) -> None:
        changes = [waiter.asked for waiter in waiters]
        if isinstance(changes[0], Selection):
            _tell(waiters[0], await self._inner.delete(name, changes[0]))
            return
        writes = [change for change in changes if isinstance(change, Write)]
        for waiter, outcome in zip(waiters, await self._inner.write(name, writes), strict=True):
            _tell(waiter, outcome)

    async def _query(self, name: str, query: Query) -> Found:
        key = (name, _alike(query))
        line = self._query_lines.get(key)
        if line is None:
            line = self._query_lines[key] = Line(
                lambda waiters: self._serve_queries(name, waiters),
                MERGED_QUERIES,
                QUERIES_UNDER_WAY,
                lambda: self._query_lines.pop(key, None),
            )
        return await line.join(Waiter(query, 1, query.embedding.nbytes, alone=False))

    async def _serve_queries(self, name: str, waiters: list[Waiter[Query, Found]]) -> None:
        found = await self._inner.query(name, [waiter.asked for waiter in waiters])
        for waiter, hits in zip(waiters, found.hits, strict=True):
            _tell(waiter, Found(found.collection, [hits]))


async def _all(asked: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for several. One alone gets no task, and so its place in the line at once."""
    return [await asked[0]] if len(asked) == 1 else await asyncio.gather(*asked)


def _size(write: Write) -> int:
    return int(write.batch.embeddings.nbytes) + sum(map(len, write.batch.texts))


def _alike(query: Query) -> bytes:
    """What queries must have in common to leave together."""
    where = None if query.where is None else metadata_filter.to_chroma(query.where)
    where_document = None if query.where_document is None else document_filter.to_chroma(query.where_document)
    return msgspec.json.encode((len(query.embedding), query.with_embeddings, where, where_document))
