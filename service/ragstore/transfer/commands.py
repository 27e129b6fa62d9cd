"""`ragstore export`, `import`, `copy`, `rebuild` and `stats`; they need the extra `transfer`.

Their dependencies are imported when they run, so that `ragstore serve` starts without them.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from ragstore.kit.command_line import one_line
from ragstore.kit.extras import MissingExtra, require_extra
from ragstore.settings import KEY_VARIABLE, SOURCE_KEY_VARIABLE, TARGET_KEY_VARIABLE, URL_VARIABLE

if TYPE_CHECKING:
    from ragstore.transfer.importing import ImportResult
    from ragstore_client import Rebuild

T = TypeVar("T")

DEFAULT_URL: Final = "http://127.0.0.1:8080"
STREAM: Final = "-"
BATCH: Final = 500


class _TransferCommand(click.Command):
    """A command that checks first whether the extra `transfer` is installed."""

    def invoke(self, context: click.Context) -> object:
        """Run the command."""
        with one_line(MissingExtra):
            require_extra(
                "ragstore[transfer]", f"`ragstore {self.name}`", "ragstore_client", "httpx", "rich", "zstandard"
            )
        return super().invoke(context)


_url = click.option(
    "--url",
    envvar=URL_VARIABLE,
    show_envvar=True,
    default=DEFAULT_URL,
    show_default=True,
    help="The service's address.",
)
_batch = click.option(
    "--batch",
    type=click.IntRange(1, 999),
    default=BATCH,
    show_default=True,
    help="Maximum number of documents in one request.",
)
_patience = click.option(
    "--patience",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    help="Seconds for which a request is retried while the service is unavailable or overloaded.",
)
_into = click.option("--into", metavar="NAME", help="Name of the new collection, if it is to differ.")
_resume = click.option(
    "--resume",
    "--merge",
    "merge",
    is_flag=True,
    help="The collection may exist: documents that exist and are equal are skipped, others are written. "
    "Continues an interrupted import or copy.",
)
_verify = click.option(
    "--verify", is_flag=True, help="Read each batch back and compare it; cosine embeddings within 1e-6."
)


def _hnsw(command: Callable[..., None]) -> Callable[..., None]:
    """Options for the parameters of a new index."""
    for name, low, high, of in (
        ("--ef-search", 1, 10_000, "candidates that are compared in a query"),
        ("--max-neighbors", 2, 256, "neighbours of each document"),
        ("--ef-construction", 10, 2000, "candidates that are compared for each new document"),
    ):
        help_text = f"New index: {of}; as in the source by default."
        command = click.option(name, type=click.IntRange(low, high), help=help_text)(command)
    return command


@click.command("export", cls=_TransferCommand, short_help="Write a collection to a file, or all to a folder.")
@click.argument("names", nargs=-1, required=True, metavar="COLLECTION FILE")
@_url
@click.option(
    "--all", "everything", is_flag=True, help="Write all collections into the folder that is the one argument."
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--restart", is_flag=True, help="Start over instead of continuing an interrupted export.")
@_batch
@_patience
def export_command(
    names: tuple[str, ...], url: str, *, everything: bool, force: bool, restart: bool, batch: int, patience: float
) -> None:
    """Write COLLECTION to FILE, with embeddings, metadata and distance; with --all, every collection to a folder.

    FILE is compressed if it ends in .zst; - is standard output. It gets its name when it is complete; until then it is
    FILE.part, and running the same command again continues it. RAGSTORE_API_KEY is the API key.
    """
    from ragstore.transfer.exporting import ExportResult, export_to_file, export_to_stream
    from ragstore.transfer.files import PartialFile
    from ragstore.transfer.progress import TransferProgress
    from ragstore.transfer.service import connect

    if everything:
        _export_all(names, url, force=force, batch=batch, patience=patience)
        return
    if len(names) != 2:
        raise click.UsageError("Give COLLECTION and FILE, or --all and a folder.")
    collection, file = names
    target = Path(file)
    if file != STREAM and target.exists() and not force:
        _fail(f"{file} exists: --force replaces it")
    partial = PartialFile(target)
    if restart and file != STREAM:
        partial.discard()
    with TransferProgress(f"export {collection}") as progress:

        async def work() -> ExportResult:
            async with connect(url, os.environ.get(KEY_VARIABLE, ""), patience) as service:
                if file == STREAM:
                    return await export_to_stream(service, collection, batch, progress)
                return await export_to_file(service, collection, partial, batch, progress)

        left = "" if file == STREAM else f"; {partial.path} has them, and running the same command again continues it"
        done = _run(
            work(), lambda: f"{progress.done} of {progress.total or '?'} documents were exported{left}", progress.stop
        )
    continued = f", {done.continued} of them by an earlier run" if done.continued else ""
    _say(f"exported {done.documents} documents{continued}: {done.size} bytes, sha256 {done.sha256}")


def _export_all(names: tuple[str, ...], url: str, *, force: bool, batch: int, patience: float) -> None:
    from ragstore.transfer.everything import Outcome, export_all
    from ragstore.transfer.service import connect

    if len(names) != 1 or names[0] == STREAM:
        raise click.UsageError("Give one folder with --all.")

    async def work() -> Outcome:
        async with connect(url, os.environ.get(KEY_VARIABLE, ""), patience) as service:
            outcome = await export_all(service, Path(names[0]), batch, _say, force=force)
            outcome.check()
            return outcome

    done = _run(work(), lambda: "the files that are complete are kept").done
    _say(f"exported {done} collections")


@click.command("import", cls=_TransferCommand, short_help="Read files that `ragstore export` wrote.")
@click.argument("file")
@_url
@_into
@_resume
@_verify
@_hnsw
@_batch
@_patience
def import_command(
    file: str,
    url: str,
    into: str | None,
    *,
    merge: bool,
    verify: bool,
    batch: int,
    patience: float,
    **hnsw: int | None,
) -> None:
    """Read FILE, which `ragstore export` wrote, into a new collection; or each file of a folder into one of its own.

    - is standard input; compressed input is recognised. A file is read to its end before anything is written, so that
    a damaged one changes nothing. RAGSTORE_API_KEY is the API key.
    """
    import msgspec

    from ragstore.transfer.files import open_export
    from ragstore.transfer.format import ExportReader
    from ragstore.transfer.importing import Importer, check_file, import_from
    from ragstore.transfer.progress import TransferProgress
    from ragstore.transfer.service import connect

    if file != STREAM and Path(file).is_dir():
        if into is not None:
            raise click.UsageError("--into is for a single file.")
        _import_all(Path(file), url, merge=merge, verify=verify, batch=batch, patience=patience, hnsw=hnsw)
        return

    async def work() -> ImportResult:
        if file != STREAM:
            with open_export(file) as lines:
                check_file(ExportReader(lines))
        with open_export(file) as lines:
            reader = ExportReader(lines)
            collection = msgspec.structs.replace(reader.collection, name=into or reader.collection.name)
            collection = collection.with_hnsw(**hnsw)
            async with connect(url, os.environ.get(KEY_VARIABLE, ""), patience) as service:
                importer = Importer(service, collection, merge=merge, verify=verify)
                return await import_from(reader, importer, batch, progress)

    with TransferProgress(f"import {file}") as progress:
        done = _run(work(), lambda: _interrupted(progress.done, progress.total), progress.stop)
    _say_imported("imported", done, verified=verify)


def _import_all(
    folder: Path, url: str, *, merge: bool, verify: bool, batch: int, patience: float, hnsw: dict[str, int | None]
) -> None:
    from ragstore.transfer.everything import Outcome, import_all
    from ragstore.transfer.service import connect

    async def work() -> Outcome:
        async with connect(url, os.environ.get(KEY_VARIABLE, ""), patience) as service:
            outcome = await import_all(service, folder, batch, _say, hnsw, merge=merge, verify=verify)
            outcome.check()
            return outcome

    done = _run(work(), lambda: "running the same command again with --resume continues it").done
    _say(f"imported {done} collections")


@click.command("copy", cls=_TransferCommand)
@click.argument("collection")
@click.option("--from", "source_url", default=DEFAULT_URL, show_default=True, help="Address of the service to read.")
@click.option("--to", "target_url", required=True, help="Address of the service to write.")
@_into
@_resume
@_verify
@_hnsw
@_batch
@_patience
def copy_command(
    collection: str,
    source_url: str,
    target_url: str,
    into: str | None,
    *,
    merge: bool,
    verify: bool,
    batch: int,
    patience: float,
    **hnsw: int | None,
) -> None:
    """Copy COLLECTION from one service to another, or to another name.

    RAGSTORE_SOURCE_API_KEY and RAGSTORE_TARGET_API_KEY are the API keys. Neither is ever sent to the other service.
    """
    import msgspec

    from ragstore.transfer.copying import copy_collection
    from ragstore.transfer.importing import Importer
    from ragstore.transfer.progress import TransferProgress
    from ragstore.transfer.service import connect

    if source_url.rstrip("/") == target_url.rstrip("/") and into in (None, collection):
        _fail("A collection cannot be copied onto itself: --into gives another name")

    async def work() -> ImportResult:
        async with (
            connect(source_url, os.environ.get(SOURCE_KEY_VARIABLE, ""), patience) as source,
            connect(target_url, os.environ.get(TARGET_KEY_VARIABLE, ""), patience) as target,
        ):
            found = await source.collection(collection)
            wanted = msgspec.structs.replace(found, name=into or collection).with_hnsw(**hnsw)
            importer = Importer(target, wanted, merge=merge, verify=verify)
            return await copy_collection(source, found, importer, batch, progress)

    with TransferProgress(f"copy {collection}") as progress:
        done = _run(work(), lambda: _interrupted(progress.done, progress.total), progress.stop)
    _say_imported("copied", done, verified=verify)


@click.command("rebuild", cls=_TransferCommand, short_help="Build a new index for a collection that is used.")
@click.argument("collection")
@_url
@click.option(
    "--sample",
    type=click.IntRange(0, 10_000),
    default=500,
    show_default=True,
    help="Number of documents to look for in the old index and in the new one.",
)
@_hnsw
@_patience
def rebuild_command(collection: str, url: str, *, sample: int, patience: float, **hnsw: int | None) -> None:
    """Build a new index for COLLECTION, which is read and written meanwhile.

    The new index finds documents that the old one has lost. The service must have embedded Chroma.
    RAGSTORE_API_KEY is the API key, of an admin.
    """
    from ragstore.transfer.progress import TransferProgress
    from ragstore.transfer.rebuilding import rebuild_index
    from ragstore.transfer.service import connect

    async def work() -> Rebuild:
        async with connect(url, os.environ.get(KEY_VARIABLE, ""), patience) as service:
            return await rebuild_index(service, collection, sample, hnsw, progress)

    with TransferProgress(f"rebuild {collection}") as progress:
        done = _run(work(), lambda: "the service continues the rebuild", progress.stop)
    click.echo(f"{collection}: rebuilt the index of {done.done} documents")
    if done.before is not None and done.after is not None:
        lost, sampled = done.before.lost, done.before.sampled
        click.echo(f"{collection}: lost {lost} of {sampled} sampled documents before, {done.after.lost} after")


@click.command("stats", cls=_TransferCommand)
@_url
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_patience
def stats_command(url: str, *, as_json: bool, patience: float) -> None:
    """Show the service's collections with their sizes.

    RAGSTORE_API_KEY is the API key; collections outside its scope are not shown.
    """
    import msgspec

    from ragstore.transfer.service import connect
    from ragstore.transfer.stats import Stats, show, stats_of

    async def work() -> Stats:
        async with connect(url, os.environ.get(KEY_VARIABLE, ""), patience) as service:
            return stats_of(service.address, await service.collections(counts=True))

    found = _run(work(), lambda: "nothing was printed")
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        show(found)


COMMANDS: Final = (export_command, import_command, copy_command, rebuild_command, stats_command)


def _run(work: Coroutine[Any, Any, T], so_far: Callable[[], str], stop: Callable[[], object] = lambda: None) -> T:
    """Run a command, and exit with a one-line message if it fails.

    Args:
        work: the command.
        so_far: the state so far, for the message after an interruption.
        stop: stops the progress bar, which would otherwise be drawn around the message.
    """
    from ragstore.transfer.failures import INTERRUPTED, TransferFailed

    try:
        return asyncio.run(work)
    except TransferFailed as failure:
        stop()
        _fail(str(failure), failure.exit_code)
    except BrokenPipeError:
        # Python would report the error a second time when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail("Broken pipe: the reader of standard output has closed it")
    except OSError as error:
        _fail(f"{error.filename or 'A file'}: {error.strerror}")
    except KeyboardInterrupt:
        stop()
        _fail(f"Interrupted: {so_far()}", INTERRUPTED)


def _interrupted(done: int, total: int | None) -> str:
    stored = f"at least {done} of {total or '?'} documents are stored"
    return f"{stored}; running the same command again with --resume continues it"


def _say_imported(what: str, done: ImportResult, *, verified: bool) -> None:
    from ragstore.transfer.documents import COSINE_TOLERANCE

    clauses = [f"{what} {done.documents} documents"]
    if done.skipped:
        clauses.append(f"{done.skipped} of them existed already")
    if verified:
        clauses.append(f"{done.written} read back and compared")
    if done.rounded:
        clauses.append(f"{done.rounded} equal but for Chroma's rounding (embeddings within {COSINE_TOLERANCE:g})")
    _say(", ".join(clauses))


def _say(text: str) -> None:
    click.echo(text, err=True)


def _fail(text: str, exit_code: int = 1) -> NoReturn:
    click.echo(f"Error: {text}", err=True)
    sys.exit(exit_code)
