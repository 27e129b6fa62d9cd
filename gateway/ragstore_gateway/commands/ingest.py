"""The command `ragstore-gateway ingest`."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

import click
import msgspec

from ragstore.kit.errors import ServiceError
from ragstore.kit.settings import SettingsError
from ragstore_client import AsyncClient, RagstoreError
from ragstore_gateway.commands.gateway_connection import GatewayFailed
from ragstore_gateway.commands.kb.remote_base import RemoteKnowledgeBase
from ragstore_gateway.commands.line import Line
from ragstore_gateway.commands.progress import DocumentProgress
from ragstore_gateway.commands.read import DocumentReader, Unreadable, found
from ragstore_gateway.commands.remote import RemoteGateway
from ragstore_gateway.embeddings.embedder import Vectors
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.plain_collections.index import EmptyText, Indexer, OtherModel
from ragstore_gateway.plain_collections.windows import windows
from ragstore_gateway.settings import URL_VARIABLE, Settings, load
from ragstore_gateway.splitting.chunk import WINDOW

FAILED: Final = 1

CONCURRENCY: Final = 4
"""Documents in progress: while one is embedded, others are read and stored."""

T = TypeVar("T")

Embed: TypeAlias = Callable[[Sequence[str]], Awaitable[Vectors]]


@dataclass(frozen=True)
class Options:
    """The options of `ingest`."""

    collection: str
    kb: str
    chunk_size: int
    overlap: int
    source: str
    url: str
    dry_run: bool


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="URL|FILE|FOLDER|-...")
@click.option("--collection", default="memory", show_default=True, help="Collection to store the chunks in.")
@click.option("--kb", default="", help="Knowledge base to ingest in, which chunks by itself; needs a running gateway.")
@click.option("--chunk-size", type=click.IntRange(1), default=WINDOW.size, show_default=True, help="In characters.")
@click.option("--overlap", type=click.IntRange(0), default=WINDOW.overlap, show_default=True, help="In characters.")
@click.option("--recursive", is_flag=True, help="Descend into the folders of a folder.")
@click.option("--source", default="", help="Stored with each chunk; by default the name of the file, or the URL.")
@click.option("--dry-run", is_flag=True, help="Show the number of chunks, and store nothing.")
@click.option("--url", default="", help=f"A running gateway; {URL_VARIABLE} by default, and this process without both.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per document.")
def ingest(sources: tuple[str, ...], recursive: bool, as_json: bool, **options: object) -> None:
    """Split, embed and store the texts of documents. Ingesting one again replaces its chunks.

    A document that has not changed is not embedded again, so that an interrupted run is continued by the same command.

    Files are text, Markdown, HTML, PDF or CSV, and with the extra 'office' also DOCX, XLSX or PPTX.

    Exit code 1 if a document failed; the others are stored.
    """
    chosen = msgspec.convert(options, Options)
    if chosen.overlap >= chosen.chunk_size:
        raise click.UsageError("--overlap must be less than --chunk-size")
    if chosen.kb and not (chosen.url or os.environ.get(URL_VARIABLE)):
        raise click.UsageError("--kb needs a running gateway: --url")
    names = list(dict.fromkeys(found(list(sources), recursive=recursive)))
    if not names:
        raise click.UsageError("there is no document in the folders")
    try:
        failed = asyncio.run(_ingest(names, chosen, as_json))
    except KeyboardInterrupt:
        raise click.ClickException("interrupted; the same command continues") from None
    if failed:
        raise click.exceptions.Exit(FAILED)


async def _ingest(names: list[str], options: Options, as_json: bool) -> int:
    """Ingest documents, a few at a time. The lines are in the order of the names.

    Returns:
        The number of documents that failed.
    """
    failed = 0
    try:
        settings = load()
        with DocumentProgress("ingest", len(names), shown=not as_json) as progress:
            async with _parts(options, settings) as parts:
                async for line in in_order(names, lambda name: _ingest_one(parts, name, options), CONCURRENCY):
                    failed += not line.ok
                    click.echo(msgspec.json.encode(line).decode() if as_json else _described(line))
                    progress.done(line.name)
    except (GatewayFailed, OtherModel, RagstoreError, ServiceError, SettingsError) as error:
        raise click.ClickException(getattr(error, "detail", "") or str(error)) from None
    return failed


async def in_order(names: Sequence[str], work: Callable[[str], Awaitable[T]], concurrency: int) -> AsyncIterator[T]:
    """The results of work on names, in their order. If one fails, the others are cancelled.

    Args:
        work: the work on one.
        concurrency: maximum number of names in progress.
    """
    running: deque[asyncio.Future[T]] = deque()
    try:
        for name in names:
            running.append(asyncio.ensure_future(work(name)))
            if len(running) >= concurrency:
                yield await running.popleft()
        while running:
            yield await running.popleft()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _ingest_one(parts: _Parts, name: str, options: Options) -> Line:
    try:
        text = await parts.reader.read(name)
        if parts.indexer is None:
            return Line(name, True, len(windows(text.text, options.chunk_size, options.overlap, text.headings)))
        indexed = await parts.indexer.index(text)
        return Line(name, True, indexed.chunks, indexed.removed, indexed.unchanged)
    except (EmptyText, Unreadable) as error:
        return Line(name, False, error=str(error))


def _described(line: Line) -> str:
    if not line.ok:
        return f"{line.name}: failed: {line.error}"
    if line.unchanged:
        return f"{line.name}: {line.chunks} chunks, unchanged"
    removed = f", {line.removed} old chunks removed" if line.removed else ""
    return f"{line.name}: {line.chunks} chunks{removed}"


@dataclass(frozen=True)
class _Parts:
    """The reader of documents, and the indexer; there is none for a dry run."""

    reader: DocumentReader
    indexer: Indexer | RemoteKnowledgeBase | None


@asynccontextmanager
async def _parts(options: Options, settings: Settings) -> AsyncIterator[_Parts]:
    """The parts of a running gateway, or of this process."""
    url = options.url or os.environ.get(URL_VARIABLE, "")
    async with AsyncExitStack() as stack:
        extractor = Extractor.from_settings(settings)
        await stack.enter_async_context(extractor.running())
        remote = await stack.enter_async_context(RemoteGateway(url)) if url else None
        if remote is not None:
            read_page = _read_by(remote)
        else:
            # Only now: a running gateway fetches by itself.
            from ragstore_gateway.fetching.fetcher import Fetcher
            from ragstore_gateway.web.assembly import fetch_rules
            from ragstore_gateway.web.pages import PageReader

            fetcher = await stack.enter_async_context(Fetcher(fetch_rules(settings)).running())
            read_page = PageReader(fetcher, extractor, settings.extraction_timeout_seconds).text
        reader = DocumentReader(extractor, settings.max_document_bytes, read_page, options.source)
        if options.dry_run:
            yield _Parts(reader, None)
        elif remote is not None and options.kb:
            base = RemoteKnowledgeBase(remote.connection, options.kb)
            await base.open()
            yield _Parts(reader, base)
        else:
            if options.collection.startswith(settings.collection_prefix):
                raise SettingsError(f"{options.collection}: the collection belongs to a knowledge base; use --kb")
            async with _remote(remote) if remote else _in_process(settings) as (store, embed, model):
                indexer = Indexer(
                    store, options.collection, embed, model, chunk_size=options.chunk_size, overlap=options.overlap
                )
                await indexer.open()
                yield _Parts(reader, indexer)


def _read_by(gateway: RemoteGateway) -> Callable[[str], Awaitable[str]]:
    async def read(url: str) -> str:
        page = await gateway.extract(url)
        if not page.ok:
            raise Unreadable(page.error)
        return page.text

    return read


@asynccontextmanager
async def _remote(gateway: RemoteGateway) -> AsyncIterator[tuple[AsyncClient, Embed, str]]:
    yield gateway.store, lambda texts: gateway.embed(texts, "document"), await gateway.model()


@asynccontextmanager
async def _in_process(settings: Settings) -> AsyncIterator[tuple[AsyncClient, Embed, str]]:
    # Only now: embedded Chroma and the model are not needed for a running gateway.
    from ragstore_gateway.app import create_embeddings
    from ragstore_gateway.store.store import Store

    embeddings = create_embeddings(settings)
    embedder = embeddings.default
    store = Store.from_env(settings, threading.Event())
    async with embeddings.running(), store.running():
        yield store.client, lambda texts: embedder.embed(texts, "document"), embedder.name
