"""The command `ragstore-gateway ingest`, and what it has in common with `kb ingest`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, TypedDict, TypeVar, Unpack

import click
import msgspec

from ragstore_client.gateway import AsyncGatewayClient
from ragstore_gateway.commands.documents import Given, StandardInput, documents_of, origin_of
from ragstore_gateway.commands.ingestion import ingest_all, reporter
from ragstore_gateway.commands.progress import ProgressBar
from ragstore_gateway.commands.replaced_options import CommandWithReplacements
from ragstore_gateway.commands.running import find_base, run, url_option
from ragstore_gateway.extraction.formats import EXTENSIONS

Command = TypeVar("Command", bound=Callable[..., None])

FAILED: Final = 1
MEMORY: Final = "memory"
"""The knowledge base that commands use by default."""

_BASE: Final = "use `ragstore-gateway kb ingest NAME` for a knowledge base of another name"
_CHUNKS: Final = "a knowledge base has its own: `ragstore-gateway kb create NAME --set {}=NUMBER`"
_REPLACEMENTS: Final = {
    "--kb": _BASE,
    "--collection": _BASE,
    "--chunk-size": _CHUNKS.format("chunkSize"),
    "--overlap": _CHUNKS.format("chunkOverlap"),
    "--source": "a document is named by its file or its URL, and that of standard input by --document-name",
}


class IngestionOptions(TypedDict):
    """The options of a command that ingests.

    Attributes:
        recursive: whether to descend into the folders of a folder.
        document_name: the name of the document of standard input.
        dry_run: whether only to print the names of the documents.
        as_json: whether to print JSON.
        url: the gateway; empty for the default.
    """

    recursive: bool
    document_name: str
    dry_run: bool
    as_json: bool
    url: str


def ingestion_options(command: Command) -> Command:
    """Add the arguments and options of a command that ingests."""
    for add in (
        url_option,
        click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line."),
        click.option("--dry-run", is_flag=True, help="Print the names of the documents, and send nothing."),
        click.option(
            "--document-name", default="stdin", show_default=True, help="Name of the document of standard input."
        ),
        click.option("--recursive", is_flag=True, help="Descend into the folders of a folder."),
        click.argument("sources", nargs=-1, required=True, metavar="URL|FILE|FOLDER|-..."),
    ):
        command = add(command)
    return command


@click.command(
    cls=CommandWithReplacements,
    replacements=_REPLACEMENTS,
    short_help="Ingest documents in the knowledge base 'memory'.",
)
@ingestion_options
def ingest(sources: tuple[str, ...], **options: Unpack[IngestionOptions]) -> None:
    """Ingest documents in the knowledge base 'memory', and wait until they are searchable.

    It is `kb ingest memory`. Files are text, Markdown, HTML, PDF or CSV, and, if the gateway has the extra 'office',
    DOCX, XLSX or PPTX. The gateway extracts and splits them. Pages of the web are read by the gateway.

    A document of the same name is replaced. One that has not changed is not embedded again, so that the same command
    continues an interrupted run.

    Exit code 1 if a document failed; the others are stored. 2 for wrong usage.
    """
    ingest_sources(MEMORY, sources, **options)


def ingest_sources(base: str, sources: tuple[str, ...], **options: Unpack[IngestionOptions]) -> None:
    """Ingest what the arguments of a command name.

    Args:
        base: name of the knowledge base, or its id.
        sources: URLs, files, folders, `-`.
        options: see `IngestionOptions`.

    Raises:
        click.ClickException: the gateway failed, or the command was interrupted.
        click.UsageError: there are no documents, or several have one name.
        click.exceptions.Exit: documents failed.
    """
    as_json = options["as_json"]
    documents = _documents(sources, recursive=options["recursive"], stdin_name=options["document_name"])
    if options["dry_run"]:
        for document in documents:
            click.echo(msgspec.json.encode({"name": document.name}).decode() if as_json else document.name)
        return

    async def work(gateway: AsyncGatewayClient) -> int:
        found = await find_base(gateway, base)
        with ProgressBar("ingest", len(documents), shown=not as_json) as progress:
            return await ingest_all(gateway, found, ready, progress, reporter(as_json=as_json))

    try:
        with ExitStack() as copies:
            ready = [
                each.read(copies.enter_context(tempfile.TemporaryFile())) if isinstance(each, StandardInput) else each
                for each in documents
            ]
            failed = run(options["url"], work)
    except KeyboardInterrupt:
        raise click.ClickException("interrupted; the same command continues") from None
    if failed:
        raise click.exceptions.Exit(FAILED)


def _documents(sources: tuple[str, ...], *, recursive: bool, stdin_name: str) -> list[Given]:
    """The documents that the arguments name.

    Raises:
        click.ClickException: a folder cannot be read.
        click.UsageError: there are none, or several have one name.
    """
    try:
        # A document that two arguments name is one document.
        given = documents_of(list(sources), recursive=recursive, stdin_name=stdin_name)
        found = list({(origin_of(each), each.name): each for each in given}.values())
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None
    if not found:
        known = " ".join(EXTENSIONS)
        raise click.UsageError(
            f"there is no document in the folders: of a folder, files with the extensions {known} are ingested, and "
            "those of its folders with --recursive"
        )
    names: dict[str, Given] = {}
    for document in found:
        other = names.setdefault(document.name, document)
        if other is not document:
            raise click.UsageError(
                f"{origin_of(other)} and {origin_of(document)} would both have the name '{document.name}': ingest a "
                "folder that has both, with --recursive, so that the names have their folders, or one after the other"
            )
    return found
