"""Ingests documents in a knowledge base, and prints the outcome of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
import msgspec

from ragstore_client.gateway import AsyncGatewayClient, BaseLike, NewContent
from ragstore_gateway.commands.progress import ProgressBar


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
    gateway: AsyncGatewayClient,
    base: BaseLike,
    documents: Iterable[NewContent],
    progress: ProgressBar,
    report: Callable[[Line], None],
) -> int:
    """Ingest documents. A document that fails does not end the others.

    Args:
        progress: shows each step.
        report: is called with the outcome of each document, in the order of the documents.

    Returns:
        The number of documents that failed.
    """
    failed = 0
    async for outcome in gateway.ingest(base, documents, progress=progress.show):
        report(Line(outcome.name, outcome.ok, outcome.chunks, unchanged=outcome.unchanged, error=outcome.error))
        failed += not outcome.ok
    return failed
