"""`Strays`: chunks in the collections of knowledge bases that belong to no revision are counted, logged and removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import structlog

from ragstore.kit.background import cancel_all
from ragstore.kit.errors import ServiceError
from ragstore_gateway.engines.engine_collection import MAX_PASSAGES, OWNER_KEY, Passage, Vector
from ragstore_gateway.ingestion import metrics
from ragstore_gateway.ingestion.collections import Collection, Collections
from ragstore_gateway.ingestion.revisions import Revisions

MAX_LOGGED: Final = 20
"""Maximum number of ids in a log line."""

MAX_ROUNDS: Final = 100
"""Maximum number of times that one search leads to a removal of `MAX_PASSAGES` chunks. The next search continues."""

_log = structlog.get_logger(__name__)


class Strays:
    """Removes stray chunks in the background, as searches find them.

    Only collections that this gateway's database lists are touched: no linked collection, and none of another gateway.

    Args:
        collections: the collections of the bases.
        revisions: the revisions of documents.
    """

    def __init__(self, collections: Collections, revisions: Revisions) -> None:
        self._collections = collections
        self._revisions = revisions
        self._tasks: dict[str, asyncio.Task[None]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a check or a removal runs."""
        return bool(self._tasks)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """End the removals in progress at the end. The next search that finds the chunks begins another one."""
        try:
            yield
        finally:
            await cancel_all(self._tasks.values())

    def report(self, collection: Collection, vector: Vector, passages: Sequence[Passage]) -> None:
        """Check invisible chunks that a search found, and remove the strays among them.

        While a check of the collection runs, further ones are skipped.

        Args:
            vector: the vector of the search. Removed chunks make room for others near it.
            passages: the chunks.
        """
        if passages and collection.id not in self._tasks:
            task = asyncio.create_task(self._check(collection, vector, passages), name="remove-strays")
            self._tasks[collection.id] = task
            task.add_done_callback(lambda _: self._tasks.pop(collection.id))

    async def _check(self, collection: Collection, vector: Vector, passages: Sequence[Passage]) -> None:
        try:
            for _ in range(MAX_ROUNDS):
                strays = await self._revisions.strays(collection, _own(collection, passages))
                if not strays:
                    return
                await self._remove(collection, strays)
                passages = await self._collections.open(collection).search(vector, MAX_PASSAGES)
        except ServiceError as error:
            _log.warning("stray chunks not removed", base=collection.base_id, error=error.code)
        except Exception as error:  # noqa: BLE001  # a task of the background, whose exception nobody reads
            _log.error("stray chunks not removed", base=collection.base_id, error=type(error).__name__)

    async def _remove(self, collection: Collection, strays: Sequence[Passage]) -> None:
        metrics.STRAYS_FOUND.inc(len(strays))
        ids = [passage.id for passage in strays]
        store = self._collections.open(collection)
        for start in range(0, len(ids), MAX_PASSAGES):
            await store.delete_ids(ids[start : start + MAX_PASSAGES])
        metrics.STRAYS_REMOVED.inc(len(strays))
        _log.warning(
            "stray chunks removed",
            base=collection.base_id,
            collection=collection.id,
            count=len(strays),
            ids=ids[:MAX_LOGGED],
        )


def _own(collection: Collection, passages: Sequence[Passage]) -> Sequence[Passage]:
    """The chunks that the gateway has stored there: a shared collection also has records of others."""
    if not collection.owner:
        return passages
    return [passage for passage in passages if passage.metadata.get(OWNER_KEY) == collection.owner]
