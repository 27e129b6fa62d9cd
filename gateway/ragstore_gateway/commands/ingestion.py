"""Sends documents to a knowledge base, and waits until they are ingested."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import click
import msgspec

from ragstore_gateway.commands.documents import Document
from ragstore_gateway.commands.gateway_client.client import GatewayClient
from ragstore_gateway.commands.gateway_client.connection import GatewayFailed
from ragstore_gateway.commands.gateway_client.responses import State
from ragstore_gateway.commands.progress import DocumentProgress

CONCURRENCY: Final = 4
"""Documents that are in flight. The gateway has a queue of its own."""

POLL_SECONDS: Final = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)
"""Waits between two requests for the state of an ingestion. The last one repeats."""

MAX_FAILED_POLLS: Final = 60
"""Number of requests for a state that may fail in a row: jobs survive a restart of the gateway."""


class Line(msgspec.Struct, omit_defaults=True):
    """The outcome of a document, as `--json` prints it.

    Attributes:
        name: its name in the knowledge base.
        ok: whether it was ingested.
        chunks: number of its chunks.
        unchanged: whether it was ingested before, so that nothing was embedded.
        error: why it was not ingested.
    """

    name: str
    ok: bool
    chunks: int = 0
    unchanged: bool = False
    error: str = ""


def reporter(*, as_json: bool) -> Callable[[Line], None]:
    """A function that prints the outcome of a document.

    Args:
        as_json: whether it prints JSON.
    """

    def report(line: Line) -> None:
        if as_json:
            click.echo(msgspec.json.encode(line).decode())
        elif not line.ok:
            click.echo(f"{line.name}: failed: {line.error}")
        else:
            click.echo(f"{line.name}: {'unchanged' if line.unchanged else f'{line.chunks} chunks'}")

    return report


async def ingest_all(
    gateway: GatewayClient,
    base_id: str,
    documents: Iterable[Document],
    progress: DocumentProgress,
    report: Callable[[Line], None],
) -> int:
    """Ingest documents. A document that fails does not end the others.

    Args:
        base_id: the knowledge base.
        progress: shows each step.
        report: is called with the outcome of each document, in the order of the documents.

    Returns:
        The number of documents that failed.
    """
    remaining = enumerate(documents)
    # A slow document delays the lines of later ones, but not their ingestion.
    waiting: dict[int, Line] = {}
    reported = failed = 0

    async def work() -> None:
        nonlocal reported, failed
        for number, document in remaining:
            waiting[number] = line = await _ingest(gateway, base_id, document, progress)
            progress.done(document.name)
            failed += not line.ok
            while reported in waiting:
                report(waiting.pop(reported))
                reported += 1

    async with asyncio.TaskGroup() as tasks:
        for _ in range(CONCURRENCY):
            tasks.create_task(work())
    return failed


async def _ingest(gateway: GatewayClient, base_id: str, document: Document, progress: DocumentProgress) -> Line:
    name = document.name
    try:
        with await document.open(gateway) as content:
            ingestion_id = await gateway.ingest(base_id, name, content, document.media_type)
        state = await _until_ended(gateway, base_id, ingestion_id, lambda share: progress.part(name, share))
    except OSError as error:
        return Line(name, False, error=error.strerror or type(error).__name__)
    except GatewayFailed as error:
        return Line(name, False, error=str(error))
    if state.status == "completed":
        return Line(name, True, state.chunks, unchanged=state.unchanged)
    return Line(name, False, error=state.status.removeprefix("failed: "))


async def _until_ended(
    gateway: GatewayClient, base_id: str, ingestion_id: str, progress: Callable[[float], None]
) -> State:
    """Wait until an ingestion has ended.

    Args:
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
            state = await gateway.state(base_id, ingestion_id)
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
