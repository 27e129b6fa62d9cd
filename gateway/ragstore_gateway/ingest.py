"""The command `ragstore-gateway ingest`."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import click
import msgspec

from ragstore.kit.errors import ServiceError
from ragstore.kit.settings import SettingsError
from ragstore_client import AsyncClient, RagstoreError
from ragstore_gateway.embeddings.embedder import Vectors
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.ingestion.index import EmptyText, Indexer, OtherModel, Text
from ragstore_gateway.ingestion.read import Unreadable, found, read
from ragstore_gateway.remote import GatewayFailed, RemoteGateway
from ragstore_gateway.settings import URL_VARIABLE, Settings, load
from ragstore_gateway.splitting.chunk import WINDOW
from ragstore_gateway.splitting.windows import windows

FAILED: Final = 1


class Line(msgspec.Struct, omit_defaults=True):
    """One line of `--json`.

    Attributes:
        name: the file.
        ok: whether it was ingested.
        chunks: number of its chunks.
        removed: number of chunks of an earlier version that were removed.
        error: why it was not ingested.
    """

    name: str
    ok: bool
    chunks: int = 0
    removed: int = 0
    error: str = ""


@dataclass(frozen=True)
class Options:
    """The options of `ingest`."""

    collection: str
    chunk_size: int
    overlap: int
    source: str
    url: str
    dry_run: bool


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="FILE|FOLDER|-...")
@click.option("--collection", default="memory", show_default=True, help="Collection to store the chunks in.")
@click.option("--chunk-size", type=click.IntRange(1), default=WINDOW.size, show_default=True, help="In characters.")
@click.option("--overlap", type=click.IntRange(0), default=WINDOW.overlap, show_default=True, help="In characters.")
@click.option("--recursive", is_flag=True, help="Descend into the folders of a folder.")
@click.option("--source", default="", help="Stored with each chunk; the name of the file by default.")
@click.option("--dry-run", is_flag=True, help="Show the number of chunks, and store nothing.")
@click.option("--url", default="", help=f"A running gateway; {URL_VARIABLE} by default, and this process without both.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per file.")
def ingest(sources: tuple[str, ...], recursive: bool, as_json: bool, **options: object) -> None:
    """Split, embed and store the texts of documents. Ingesting a file again replaces its chunks.

    Files are text, Markdown, HTML, PDF or CSV, and with the extra 'office' also DOCX, XLSX or PPTX.

    Exit code 1 if a file failed; the others are stored.
    """
    chosen = msgspec.convert(options, Options)
    if chosen.overlap >= chosen.chunk_size:
        raise click.UsageError("--overlap must be less than --chunk-size")
    names = list(found(list(sources), recursive=recursive))
    if not names:
        raise click.UsageError("there is no document in the folders")
    failed = asyncio.run(_ingest(names, chosen, as_json))
    if failed:
        raise click.exceptions.Exit(FAILED)


async def _ingest(names: list[str], options: Options, as_json: bool) -> int:
    """Ingest files one after the other.

    Returns:
        The number of files that failed.
    """
    failed = 0
    try:
        settings = load()
        extractor = Extractor.from_settings(settings)
        async with extractor.running(), _indexer(options, settings) as indexer:
            for name in names:
                reading = read(name, options.source, extractor, settings.max_document_bytes)
                line = await _ingest_one(indexer, name, reading, options)
                failed += not line.ok
                click.echo(msgspec.json.encode(line).decode() if as_json else _described(line))
    except (GatewayFailed, OtherModel, RagstoreError, ServiceError, SettingsError) as error:
        raise click.ClickException(getattr(error, "detail", "") or str(error)) from None
    return failed


async def _ingest_one(indexer: Indexer | None, name: str, reading: Awaitable[Text], options: Options) -> Line:
    try:
        text = await reading
        if indexer is None:
            return Line(name, True, len(windows(text.text, options.chunk_size, options.overlap)))
        indexed = await indexer.index(text)
        return Line(name, True, indexed.chunks, indexed.removed)
    except (EmptyText, Unreadable) as error:
        return Line(name, False, error=str(error))


def _described(line: Line) -> str:
    if not line.ok:
        return f"{line.name}: failed: {line.error}"
    removed = f", {line.removed} old chunks removed" if line.removed else ""
    return f"{line.name}: {line.chunks} chunks{removed}"


@asynccontextmanager
async def _indexer(options: Options, settings: Settings) -> AsyncIterator[Indexer | None]:
    """The indexer of a running gateway, or of this process; None for a dry run."""
    if options.dry_run:
        yield None
        return
    url = options.url or os.environ.get(URL_VARIABLE, "")
    async with _remote(url) if url else _in_process(settings) as parts:
        indexer = Indexer(
            parts.store,
            options.collection,
            parts.embed,
            parts.model,
            chunk_size=options.chunk_size,
            overlap=options.overlap,
        )
        await indexer.open()
        yield indexer


@dataclass(frozen=True)
class _Parts:
    """The store and the embedder of an indexer."""

    store: AsyncClient
    embed: Callable[[Sequence[str]], Awaitable[Vectors]]
    model: str


@asynccontextmanager
async def _remote(url: str) -> AsyncIterator[_Parts]:
    async with RemoteGateway(url) as gateway:
        yield _Parts(gateway.store, lambda texts: gateway.embed(texts, "document"), await gateway.model())


@asynccontextmanager
async def _in_process(settings: Settings) -> AsyncIterator[_Parts]:
    # Only now: embedded Chroma and the model are not needed for a running gateway.
    from ragstore_gateway.app import create_embeddings
    from ragstore_gateway.store import Store

    embeddings = create_embeddings(settings)
    embedder = embeddings.default
    store = Store.from_env(settings, threading.Event())
    async with embeddings.running(), store.running():
        yield _Parts(store.client, lambda texts: embedder.embed(texts, "document"), embedder.name)
