"""Spies: a store and a backend that record the calls that they get. Also helpers to start several requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ragstore.chroma.embedded.backend import EmbeddedBackend
from ragstore.chroma.operations import Operation
from ragstore.kit.errors import ServiceError
from ragstore.model.documents import Selection, Write
from ragstore.model.queries import CollectionMatches, Query
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """A call of a store.

    Attributes:
        kind: the method.
        name: the collection's name.
        parts: the writes, the queries or the one selection.
    """

    kind: Literal["write", "delete", "query"]
    name: str
    parts: tuple[Write | Query | Selection, ...]

    @property
    def ids(self) -> list[str]:
        """The ids of each part, joined by spaces."""
        return [" ".join(_ids(part)) for part in self.parts]

    @property
    def queries(self) -> list[Query]:
        """The queries."""
        return [part for part in self.parts if isinstance(part, Query)]


def _ids(part: Write | Query | Selection) -> Sequence[str]:
    if isinstance(part, Write):
        return part.batch.ids
    return (part.ids or ()) if isinstance(part, Selection) else ()


class SpyStore(StoreLayer):
    """Records writes, deletes and queries, and holds them back while its gates are closed.

    Args:
        inner: the store that the calls are passed on to.

    Attributes:
        calls: the calls so far.
        entry_gate: calls wait for it before they are passed on.
        exit_gate: calls wait for it before they return.
        failure: returns the error to raise for a call, or None to pass it on.
        closed: whether the store was closed.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.calls: list[Call] = []
        self.entry_gate = asyncio.Event()
        self.exit_gate = asyncio.Event()
        self.entry_gate.set()
        self.exit_gate.set()
        self.failure: Callable[[Call], BaseException | None] = lambda call: None
        self.closed = False
        self._news = asyncio.Event()

    async def close(self) -> None:
        """Recorded only: the inner store is shared."""
        self.closed = True

    def release_waiting(self) -> None:
        """Pass on the calls that wait at the entry gate, and hold back later ones."""
        self.entry_gate.set()
        self.entry_gate.clear()

    async def wait_for_calls(self, count: int) -> None:
        """Wait until there have been `count` calls."""
        while len(self.calls) < count:
            self._news.clear()
            await self._news.wait()

    async def write(self, name: str, writes: Sequence[Write]) -> list[ServiceError | None]:
        await self._begin(Call("write", name, tuple(writes)))
        outcomes = await super().write(name, writes)
        await self.exit_gate.wait()
        return outcomes

    async def delete(self, name: str, selection: Selection) -> int:
        await self._begin(Call("delete", name, (selection,)))
        count = await super().delete(name, selection)
        await self.exit_gate.wait()
        return count

    async def query(self, name: str, queries: Sequence[Query]) -> CollectionMatches:
        await self._begin(Call("query", name, tuple(queries)))
        found = await super().query(name, queries)
        await self.exit_gate.wait()
        return found

    async def _begin(self, call: Call) -> None:
        self.calls.append(call)
        self._news.set()
        await self.entry_gate.wait()
        failure = self.failure(call)
        if failure is not None:
            raise failure


class SpyBackend(EmbeddedBackend):
    """Embedded Chroma that records its operations.

    Attributes:
        operations: the operations so far.
    """

    operations: list[Operation[object]]

    async def start(self) -> None:
        self.operations = []
        await super().start()

    async def call(self, operation: Operation[T]) -> T:
        self.operations.append(operation)
        return await super().call(operation)


def submit_all(*calls: Coroutine[Any, Any, T]) -> asyncio.Future[list[T | BaseException]]:
    """Start several requests in this order; their results and errors."""
    return asyncio.gather(*calls, return_exceptions=True)


async def turn() -> None:
    """Wait one turn of the event loop, so that requests that were started enter their queue."""
    await asyncio.sleep(0)


def errors_as_types(responses: list[Any]) -> list[object]:
    """The responses, with the type of each error at its index."""
    return [type(response) if isinstance(response, BaseException) else response for response in responses]
