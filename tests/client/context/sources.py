"""Sources for the tests of the builder: what they return, after what delay, and how they fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ragstore_client import Unavailable, Where
from ragstore_client.context import Passage, PassageSource

Outcome = Literal["passages", "nothing", "problem", "bug", "timeout", "hang", "cancels itself", "garbage", "stubborn"]

NO_TIME = 0.0


@dataclass
class Search:
    """A search that a source has received."""

    query: str
    top_k: int
    where: Where | None
    with_embeddings: bool
    deadline: float | None
    collections: tuple[str, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)


def passage(
    number: int = 0, *, similarity: float | None = 0.9, text: str | None = None, **metadata: str | int
) -> Passage:
    """A passage of a file."""
    text = text or f"Passage number {number} is about something of its own."
    return Passage(
        id=f"p{number}",
        text=text,
        metadata={"file_name": "manual.pdf", "chunk_index": number, **metadata},
        similarity=similarity,
    )


@dataclass
class Behaviour:
    """The outcome of a search."""

    outcome: Outcome = "passages"
    delay: float = NO_TIME
    passages: Sequence[Passage] = ()


class ScriptedSource:
    """A source that has a behaviour for each collection; `default` without collections."""

    def __init__(self, default: Behaviour | None = None, **by_collection: Behaviour) -> None:
        self.default = default or Behaviour(passages=[passage(1)])
        self.by_collection = by_collection
        self.searches: list[Search] = []
        self.in_flight = 0

    def scoped(
        self, *, collections: Sequence[str] | None = None, headers: Mapping[str, str] | None = None
    ) -> PassageSource:
        return _Scoped(self, tuple(collections or ()), dict(headers or {}))

    async def search(
        self, query: str, top_k: int, *, where: Where | None, with_embeddings: bool, deadline: float | None
    ) -> list[Passage]:
        return await self.behave(Search(query, top_k, where, with_embeddings, deadline))

    async def behave(self, search: Search) -> list[Passage]:
        self.searches.append(search)
        self.in_flight += 1
        try:
            behaviour = self.by_collection.get(",".join(search.collections), self.default)
            return await _behave(behaviour)
        finally:
            self.in_flight -= 1


class _Scoped:
    def __init__(self, source: ScriptedSource, collections: tuple[str, ...], headers: dict[str, str]) -> None:
        self._source, self._collections, self._headers = source, collections, headers

    async def search(
        self, query: str, top_k: int, *, where: Where | None, with_embeddings: bool, deadline: float | None
    ) -> list[Passage]:
        made = Search(query, top_k, where, with_embeddings, deadline, self._collections, self._headers)
        return await self._source.behave(made)


async def _behave(behaviour: Behaviour) -> list[Passage]:
    await asyncio.sleep(behaviour.delay)
    match behaviour.outcome:
        case "passages":
            return list(behaviour.passages)
        case "nothing":
            return []
        case "problem":
            raise Unavailable(503, "Service unavailable", "secret text of a server")
        case "bug":
            raise ZeroDivisionError("secret text of a bug")
        case "timeout":
            raise TimeoutError
        case "cancels itself":
            raise asyncio.CancelledError
        case "garbage":
            return ["not a passage"]  # type: ignore[list-item]  # a source that breaks its contract
        case "stubborn":
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                await asyncio.sleep(0.01)
                raise ZeroDivisionError("secret text of a bug") from None
        case "hang":
            await asyncio.sleep(3600)
    return []


class FilteringSource:
    """A source over passages with metadata, which understands equality and `$in`, `$or`."""

    def __init__(self, passages: Sequence[Passage], delay: Callable[[], float] = lambda: 0.0) -> None:
        self.passages = passages
        self.searched = 0
        self._delay = delay

    async def search(
        self, query: str, top_k: int, *, where: Where | None, with_embeddings: bool, deadline: float | None
    ) -> list[Passage]:
        self.searched += 1
        await asyncio.sleep(self._delay())
        return [passage for passage in self.passages if where is None or _matches(passage, where)][:top_k]


def _matches(passage: Passage, where: Where) -> bool:
    for name, condition in where.items():
        if name == "$or":
            assert isinstance(condition, Sequence)
            if not any(isinstance(clause, Mapping) and _matches(passage, clause) for clause in condition):
                return False
        elif isinstance(condition, Mapping):
            allowed = condition["$in"]
            assert isinstance(allowed, Sequence)
            if passage.metadata.get(name) not in allowed:
                return False
        elif passage.metadata.get(name) != condition:
            return False
    return True
