"""Sends documents to a knowledge base, and waits until they are ingested."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from ragstore_gateway.commands.gateway_connection import GatewayFailed
from ragstore_gateway.commands.kb.client import KnowledgeBases, State
from ragstore_gateway.commands.line import Line
from ragstore_gateway.commands.progress import DocumentProgress

CONCURRENCY: Final = 4
"""Documents that are in flight. The gateway has a queue of its own."""

POLL_SECONDS: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)
"""Waits between two requests for the state of an ingestion. The last one repeats."""

MAX_FAILED_POLLS: Final = 60
"""Number of requests for a state that may fail in a row: jobs survive a restart of the gateway."""


class Source(Protocol):
    """A document to ingest."""

    @property
    def name(self) -> str:
        """Its name in the knowledge base."""

    @property
    def media_type(self) -> str:
        """Its media type."""

    def read(self) -> bytes:
        """Read it, in a thread.

        Raises:
            OSError: it cannot be read.
        """


async def ingest_all(
    bases: KnowledgeBases,
    base_id: str,
    sources: Iterable[Source],
    progress: DocumentProgress,
    report: Callable[[Line], None],
) -> int:
    """Ingest documents. A document that fails does not end the others.

    Args:
        bases: the gateway.
        base_id: the knowledge base.
        sources: the documents.
        progress: shows each step.
        report: is called with the outcome of each document.

    Returns:
        The number of documents that failed.
    """
    remaining = iter(sources)
    failed = 0

    async def work(remaining: Iterator[Source]) -> None:
        nonlocal failed
        for source in remaining:
            line = await _ingest(bases, base_id, source, progress)
            progress.done(source.name)
            failed += not line.ok
            report(line)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONCURRENCY):
            tasks.create_task(work(remaining))
    return failed


async def _ingest(bases: KnowledgeBases, base_id: str, source: Source, progress: DocumentProgress) -> Line:
    name = source.name
    try:
        content = await asyncio.to_thread(source.read)
        ingestion_id = await bases.ingest(base_id, name, content, source.media_type)
        del content
        state = await until_ended(bases, base_id, ingestion_id, lambda share: progress.part(name, share))
    except OSError as error:
        return Line(name, False, error=error.strerror or type(error).__name__)
    except GatewayFailed as error:
        return Line(name, False, error=str(error))
    if state.status == "completed":
        return Line(name, True, state.chunks, unchanged=state.unchanged)
    return Line(name, False, error=state.status.removeprefix("failed: "))


async def until_ended(
    bases: KnowledgeBases, base_id: str, ingestion_id: str, progress: Callable[[float], None] = lambda _: None
) -> State:
    """Wait until an ingestion has ended.

    Args:
        bases: the gateway.
        base_id: the knowledge base.
        ingestion_id: the ingestion.
        progress: is called with the share that is done.

    Returns:
        The state at its end.

    Raises:
        GatewayFailed: its state cannot be read.
    """
    polls = failed = 0
    while True:
        await asyncio.sleep(POLL_SECONDS[min(polls, len(POLL_SECONDS) - 1)])
        polls += 1
        try:
            state = await bases.state(base_id, ingestion_id)
        except GatewayFailed as error:
            failed += 1
            is_temporary = error.status == 0 or error.status >= 500 or error.status == 429
            if not is_temporary or failed == MAX_FAILED_POLLS:
                raise
            continue
        failed = 0
        if state.has_ended:
            return state
        progress(state.progress)
