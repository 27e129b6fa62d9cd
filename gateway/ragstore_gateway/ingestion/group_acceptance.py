"""`GroupAcceptance`: documents that arrive together are accepted with one transaction."""

from __future__ import annotations

import asyncio
from contextvars import Context
from dataclasses import dataclass
from typing import Final

from ragstore.kit.context import set_caller
from ragstore_gateway.ingestion.acceptance import NewContent, NotAccepted
from ragstore_gateway.ingestion.documents import Documents
from ragstore_gateway.ingestion.search_priority import SearchPriority
from ragstore_gateway.ingestion.tables import IngestionRow

MAX_DOCUMENTS: Final = 32
MAX_BYTES: Final = 1024 * 1024
"""Maximum number and size of the documents of one transaction. A larger document has one of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A document that waits for its acceptance."""

    content: NewContent
    accepted: asyncio.Future[IngestionRow]


class GroupAcceptance:
    """Accepts documents. A lone document never waits. Documents that arrive during a transaction share the next one.

    The transactions of one base would wait for each other anyway.

    Args:
        documents: accepts them.
        priority: delays acceptances during searches.
    """

    def __init__(self, documents: Documents, priority: SearchPriority) -> None:
        self._documents = documents
        self._priority = priority
        self._waiting: dict[str, list[_Waiting]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        # A task accepts the documents of several requests, so it has the context of none. A caller of its own takes
        # turns with the jobs, and does not wait for all of them.
        self._context = Context()
        self._context.run(set_caller, "acceptances")

    async def accept(self, base_id: str, document: NewContent) -> IngestionRow:
        """Accept a document; see `Documents.accept`."""
        waiting = _Waiting(document, asyncio.get_running_loop().create_future())
        if base_id in self._waiting:
            self._waiting[base_id].append(waiting)
        else:
            self._waiting[base_id] = [waiting]
            task = asyncio.create_task(self._priority.pausing(self._accept_all(base_id)), context=self._context.copy())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await waiting.accepted

    async def _accept_all(self, base_id: str) -> None:
        """Accept documents of a base until none waits."""
        while group := self._next_group(base_id):
            try:
                outcomes = await self._documents.accept_many(base_id, [each.content for each in group])
            except Exception as error:  # noqa: BLE001  # each caller gets it
                for each in group:
                    if not each.accepted.done():
                        each.accepted.set_exception(error)
                continue
            for each, outcome in zip(group, outcomes, strict=True):
                if each.accepted.done():
                    # Its caller has gone. The document is accepted nevertheless, as with a broken connection.
                    continue
                if isinstance(outcome, NotAccepted):
                    each.accepted.set_exception(outcome)
                else:
                    each.accepted.set_result(outcome)

    def _next_group(self, base_id: str) -> list[_Waiting]:
        waiting = self._waiting[base_id]
        size = 0
        group: list[_Waiting] = []
        for each in waiting:
            size += len(each.content.content)
            if group and (len(group) == MAX_DOCUMENTS or size > MAX_BYTES):
                break
            group.append(each)
        del waiting[: len(group)]
        if not group:
            del self._waiting[base_id]
        return group
