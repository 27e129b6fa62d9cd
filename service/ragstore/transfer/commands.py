"""`ragstore export`, `import`, `copy` and `stats`.

What they need is imported when they run, so that `ragstore serve` starts without it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from ragstore.settings import KEY_VARIABLE, SOURCE_KEY_VARIABLE, TARGET_KEY_VARIABLE, URL_VARIABLE

if TYPE_CHECKING:
    from ragstore.transfer.importing import Imported

T = TypeVar("T")

DEFAULT_URL: Final = "http://127.0.0.1:8080"
STREAM: Final = "-"
BATCH: Final = 500

_url = click.option("--url", envvar=URL_VARIABLE, default=DEFAULT_URL, show_default=True, help="The service's address.")
_batch = click.option(
    "--batch",
    type=click.IntRange(1, 999),
    default=BATCH,
    show_default=True,
    help="Most documents in one request.",
)
_patience = click.option(
    "--patience",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    help="Seconds for which a request is tried again while the service is away or full.",
)
_into = click.option("--into", metavar="NAME", help="Another name for the collection there.")
_resume = click.option(
    "--resume",
    "--merge",
    "merge",
    is_flag=True,
    help="The collection may exist: documents that are there already are passed over, others are written. "
    "Goes on with what was cut off.",
)
_verify = click.option("--verify", is_flag=True, help="Read every batch back and compare it.")


@click.command("export")
@click.argument("collection")
@click.argument("file")
@_url
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--restart", is_flag=True, help="Begin anew, where an earlier export of it was cut off.")
@_batch
@_patience
def export_command(
    collection: str, file: str, url: str, *, force: bool, restart: bool, batch: int, patience: float
) -> None:
    """Write COLLECTION to FILE, with embeddings, metadata and distance.

    FILE is compressed if it ends in .zst; - is standard output. It gets its name when it is whole; until then it is
    FILE.part, and running the same again goes on there. RAGSTORE_API_KEY holds the key to show.
    """
    from ragstore.transfer.exporting import Exported, export_to_file, export_to_stream
    from ragstore.transfer.files import PartialFile
    from ragstore.transfer.progress import TransferProgress
    from ragstore.transfer.remote import connected

    target = Path(file)
    if file != STREAM and target.exists() and not force:
        _fail(f"{file} exists: --force replaces it")
    partial = PartialFile(target)
    if restart and file != STREAM:
        partial.discard()
    with TransferProgress(f"export {collection}") as progress:

        async def work() -> Exported:
            async with connected(url, os.environ.get(KEY_VARIABLE, ""), patience) as service:
                if file == STREAM:
                    return await export_to_stream(service, collection, batch, progress)
                return await export_to_file(service, collection, partial, batch, progress)

        left = "" if file == STREAM else f"; {partial.path} keeps them, and running the same again goes on there"
        done = _run(work(), lambda: f"{progress.done} of {progress.total or '?'} documents were exported{left}")
    continued = f", {done.continued} of them from before" if done.continued else ""
    _say(f"exported {done.documents} documents{continued}: {done.size} bytes, sha256 {done.sha256}")


@click.command("import")
@click.argument("file")
@_url
@_into
@_resume
@_verify
@_batch
@_patience
def import_command(
    file: str, url: str, into: str | None, *, merge: bool, verify: bool, batch: int, patience: float
) -> None:
    """Read FILE, which `ragstore export` wrote, into a new collection.

    - is standard input; what is compressed is recognised. A file is read to its end before anything is written, so
    that a damaged one changes nothing. RAGSTORE_API_KEY holds the key to show.
    """
    import msgspec

    from ragstore.transfer.files import opened
    from ragstore.transfer.format import ExportReader
    from ragstore.transfer.importing import Importer, check, import_from
    from ragstore.transfer.progress import TransferProgress
    from ragstore.transfer.remote import connected

    async def work() -> Imported:
        if file != STREAM:
            with opened(file) as lines:
                check(ExportReader(lines))
        with opened(file) as lines:
            reader = ExportReader(lines)
            collection = msgspec.structs.replace(reader.collection, name=into or reader.collection.name)
            async with connected(url, os.environ.get(KEY_VARIABLE, ""), patience) as service:
                importer = Importer(service, collection, merge=merge, verify=verify)
                return await import_from(reader, importer, batch, progress)

    with TransferProgress(f"import {file}") as progress:
        done = _run(work(), lambda: _cut_off(progress.done, progress.total))
    _say_imported("imported", done, verified=verify)


@click.command("copy")
@click.argument("collection")
@click.option("--from", "source_url", default=DEFAULT_URL, show_default=True, help="Address of the one to read.")
@click.option("--to", "target_url", required=True, help="Address of the one to write.")
@_into
@_resume
@_verify
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
) -> None:
    """Copy COLLECTION from one service to another, or to another name.

    RAGSTORE_SOURCE_API_KEY and RAGSTORE_TARGET_API_KEY hold the keys to show. Neither is ever shown to the other side.
    """
    import msgspec

    from ragstore.transfer.copying import copy_collection
    from ragstore.transfer.importing import Importer
    from ragstore.transfer.progress import TransferProgress
    from ragstore.transfer.remote import connected

    if source_url.rstrip("/") == target_url.rstrip("/") and into in (None, collection):
        _fail("A collection cannot be copied onto itself: --into gives another name")

    async def work() -> Imported:
        async with (
            connected(source_url, os.environ.get(SOURCE_KEY_VARIABLE, ""), patience) as source,
            connected(target_url, os.environ.get(TARGET_KEY_VARIABLE, ""), patience) as target,
        ):
            found = await source.collection(collection)
            wanted = msgspec.structs.replace(found, name=into or collection)
            importer = Importer(target, wanted, merge=merge, verify=verify)
            return await copy_collection(source, found, importer, batch, progress)

    with TransferProgress(f"copy {collection}") as progress:
        done = _run(work(), lambda: _cut_off(progress.done, progress.total))
    _say_imported("copied", done, verified=verify)


@click.command("stats")
@_url
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_patience
def stats_command(url: str, *, as_json: bool, patience: float) -> None:
    """Show the service's collections and what they hold.

    RAGSTORE_API_KEY holds the key to show; collections outside its scope are not there.
    """
    import msgspec

    from ragstore.transfer.remote import connected
    from ragstore.transfer.stats import Stats, show, stats_of

    async def work() -> Stats:
        async with connected(url, os.environ.get(KEY_VARIABLE, ""), patience) as service:
            return stats_of(service.address, await service.collections())

    found = _run(work(), lambda: "nothing was shown")
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        show(found)


COMMANDS: Final = (export_command, import_command, copy_command, stats_command)


def _run(work: Coroutine[Any, Any, T], so_far: Callable[[], str]) -> T:
    """Do the work, and end the program where it fails.

    Args:
        work: the work.
        so_far: tells how far it came, when it is interrupted.
    """
    from ragstore.transfer.failures import INTERRUPTED, TransferFailed

    try:
        return asyncio.run(work)
    except TransferFailed as failure:
        _fail(str(failure), failure.exit_code)
    except BrokenPipeError:
        # Nobody reads any more; Python would complain once more when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _fail("Nobody reads standard output any more")
    except OSError as error:
        _fail(f"{error.filename or 'A file'}: {error.strerror}")
    except KeyboardInterrupt:
        _fail(f"Interrupted: {so_far()}", INTERRUPTED)


def _cut_off(done: int, total: int | None) -> str:
    return f"{done} of {total or '?'} documents are stored; running the same again with --resume goes on there"


def _say_imported(what: str, done: Imported, *, verified: bool) -> None:
    parts = [f"{what} {done.documents} documents"]
    if done.skipped:
        parts.append(f"{done.skipped} of them were there already")
    if verified:
        parts.append(f"{done.written} read back and compared")
    if done.rounded:
        parts.append(f"Chroma has rounded the last digits of {done.rounded}")
    _say(", ".join(parts))


def _say(text: str) -> None:
    click.echo(text, err=True)


def _fail(text: str, exit_code: int = 1) -> NoReturn:
    click.echo(f"Error: {text}", err=True)
    sys.exit(exit_code)
