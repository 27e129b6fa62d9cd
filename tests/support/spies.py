"""What the tests of wrapping stores share: an inner store and a backend that note what they are asked, and callers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ragstore.chroma.embedded.backend import EmbeddedBackend
from ragstore.chroma.operations import Operation
from ragstore.kit.errors import ServiceError
from ragstore.model.documents import Selection, Write
from ragstore.model.queries import Found, Query
from ragstore.store.layer import StoreLayer
from ragstore.store.protocol import Store

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """What a store was asked.

    Attributes:
        kind: which method.
        name: the collection.
        parts: the writes, the queries or the one selection.
    """

    kind: Literal["write", "delete", "query"]
    name: str
    parts: tuple[Write | Query | Selection, ...]

    @property
    def ids(self) -> list[str]:
        """The ids of each part, in one text a part."""
        return [" ".join(_ids(part)) for part in self.parts]

    @property
    def queries(self) -> list[Query]:
        """The queries."""
        return [part for part in self.parts if isinstance(part, Query)]


def _ids(part: Write | Query | Selection) -> Sequence[str]:
    if isinstance(part, Write):
        return part.batch.ids
    return (part.ids or ()) if isinstance(part, Selection) else ()


class Recording(StoreLayer):
    """Notes writes, deletes and queries, and passes them on when the test says so.

    Args:
        inner: the store that does them.

    Attributes:
        calls: what was asked so far.
        before: calls wait here before they are passed on.
        after: calls wait here before their answer is given back.
        failure: what to raise for a call instead of passing it on.
        closed: whether it was closed.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.calls: list[Call] = []
        self.before = asyncio.Event()
        self.after = asyncio.Event()
        self.before.set()
        self.after.set()
        self.failure: Callable[[Call], BaseException | None] = lambda call: None
        self.closed = False
        self._news = asyncio.Event()

    async def close(self) -> None:
        """Noted only: the store is others' too."""
        self.closed = True

    def let_go(self) -> None:
        """Pass on the calls that wait, and hold those to come."""
        self.before.set()
        self.before.clear()

    async def asked(self, count: int) -> None:
        """Wait until there were as many calls."""
        while len(self.calls) < count:
            self._news.clear()
            await self._news.wait()

    async def write(self, name: str, writes: Sequence[Write]) -> list[ServiceError | None]:
        await self._begin(Call("write", name, tuple(writes)))
        outcomes = await super().write(name, writes)
        await self.after.wait()
        return outcomes

    async def delete(self, name: str, selection: Selection) -> int:
        await self._begin(Call("delete", name, (selection,)))
        count = await super().delete(name, selection)
        await self.after.wait()
        return count

    async def query(self, name: str, queries: Sequence[Query]) -> Found:
        await self._begin(Call("query", name, tuple(queries)))
        found = await super().query(name, queries)
        await self.after.wait()
        return found

    async def _begin(self, call: Call) -> None:
        self.calls.append(call)
        self._news.set()
        await self.before.wait()
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


def together(*calls: Coroutine[Any, Any, T]) -> asyncio.Future[list[T | BaseException]]:
    """Callers who come in this order, before anything that is held is let go; what each is told."""
    return asyncio.gather(*calls, return_exceptions=True)


async def turn() -> None:
    """Let those who came take their place in the line."""
    await asyncio.sleep(0)


def kinds(answers: list[Any]) -> list[object]:
    """Answers, with errors by their type."""
    return [type(answer) if isinstance(answer, BaseException) else answer for answer in answers]
