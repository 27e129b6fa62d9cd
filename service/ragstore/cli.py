"""The `ragstore` command."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import click
import structlog

from ragstore import __version__, settings
from ragstore.kit.auth.commands import key_commands
from ragstore.kit.auth.keys import KeysError
from ragstore.kit.command_line import one_line, prepare_data
from ragstore.kit.errors import ServiceError
from ragstore.kit.extras import MissingExtra, require_extra
from ragstore.kit.logging import configure as configure_logging
from ragstore.kit.settings import SettingsError, without_userinfo
from ragstore.kit.tracing.configured import is_configured
from ragstore.model.collections import StoreStatus
from ragstore.settings import Settings
from ragstore.store.key_scope import STORE_KEYS
from ragstore.transfer import commands as transfer


def loaded_settings() -> Settings:
    """The settings in force.

    Raises:
        click.ClickException: one is wrong; the program ends with one line that names it.
    """
    with one_line(SettingsError):
        return settings.load()


@click.group()
@click.version_option(__version__, prog_name="ragstore")
def main() -> None:
    """Store documents with pre-computed embeddings in ChromaDB and find them again.

    Settings come from RAGSTORE_* variables; `ragstore check` shows them. For completion in bash:
    eval "$(_RAGSTORE_COMPLETE=bash_source ragstore)"
    """


@main.command()
def serve() -> None:
    """Run the service.

    Its settings are RAGSTORE_* variables: RAGSTORE_PORT, RAGSTORE_DATA_PATH, RAGSTORE_CHROMA_URL, RAGSTORE_KEYS_FILE
    and others. `ragstore check` lists all of them with their values. The exit code is 0 after SIGTERM or SIGINT, and 1
    if the service cannot start.
    """
    from ragstore.app import METRICS, SERVICE, check_data, create_app
    from ragstore.kit.server.runner import run

    chosen = loaded_settings()
    with one_line(SettingsError):
        SERVICE.check_access(chosen)
    _check_keys(chosen)
    configure_logging(chosen.log_level, chosen.log_format, SERVICE.name)
    for name in settings.unknown():
        structlog.get_logger(__name__).warning("unknown setting", variable=name)
    _require_extras(chosen)
    if chosen.store == "embedded":
        prepare_data(chosen.data_path, settings.variable("data_path"))
        try:
            check_data(chosen)
        except SettingsError as error:
            raise click.ClickException(f"RAGSTORE_DATA_PATH cannot be used: {error}") from None
    facts = {"version": __version__, "store": chosen.store, **_location(chosen)}
    run(lambda stopping: create_app(chosen, stopping), chosen, METRICS, facts=facts, page="/docs")


@main.command(short_help="Show the settings in force, and whether Chroma is available.")
@click.option("--index", "collection", metavar="COLLECTION", help="Also measure how many documents its index has lost.")
@click.option(
    "--sample", type=click.IntRange(min=1), default=1000, show_default=True, help="Number of documents to look for."
)
def check(collection: str | None, sample: int) -> None:
    """Show the settings in force, secrets masked, and whether Chroma is available. Exit code 1 if it is not.

    The last line has the cause then. A data folder that does not exist is not created.

    With --index, documents are looked for by their own embedding, and the share that Chroma's index does not find is
    printed. `chroma-repair FOLDER --collection COLLECTION` rebuilds an index.
    """
    chosen = loaded_settings()
    for name, value in settings.shown(chosen).items():
        click.echo(f"{name}={value}")
    for name in settings.unknown():
        click.echo(f"{name} is set, but is not a setting of ragstore")
    _check_keys(chosen)
    _require_extras(chosen)
    if chosen.store == "embedded" and not Path(chosen.data_path, "chroma.sqlite3").exists():
        _check_new_folder(chosen.data_path)
        if collection is not None:
            raise click.ClickException(f"There is no collection '{collection}'")
        return
    try:
        status = asyncio.run(_status(chosen))
    except ServiceError as error:
        cause = f": {error.cause}" if error.cause else ""
        raise click.ClickException(f"Chroma ({chosen.store}) is not available: {error.detail}{cause}") from None
    click.echo(f"Chroma ({chosen.store}) {status.chroma_version} is available: {status.collections_count} collections")
    if collection is not None:
        _check_index(chosen, collection, sample)


@main.command("openapi")
def print_openapi() -> None:
    """Print the OpenAPI document."""
    from ragstore.api.openapi.document import document
    from ragstore.app import create_litestar

    click.echo(document(create_litestar(Settings())), nl=False)


@main.command(
    context_settings={"ignore_unknown_options": True},
    add_help_option=False,
    short_help="Repair Chroma's data folder after a kill.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def repair(arguments: tuple[str, ...]) -> None:
    """Repair Chroma's data folder after a kill; the same as `chroma-repair`."""
    from chroma_repair import command

    sys.exit(command.main(arguments, "ragstore repair"))


main.add_command(key_commands(STORE_KEYS, "RAGSTORE_KEYS_FILE", lambda: loaded_settings().keys_file))
for command in transfer.COMMANDS:
    main.add_command(command)


def _location(chosen: Settings) -> dict[str, str]:
    """Where the data is, for people."""
    if chosen.store == "remote":
        return {"chroma": without_userinfo(chosen.chroma_url)}
    return {"data": str(Path(chosen.data_path).resolve())}


def _check_new_folder(path: str) -> None:
    """Say that a data folder has no data yet. Opening it would create a misspelt one."""
    folder = Path(path).absolute()
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise click.ClickException(f"RAGSTORE_DATA_PATH cannot be used: {existing} is not a folder that can be written")
    click.echo(f"Chroma (embedded) has no data in {path} yet: the first start creates it")


def _check_keys(chosen: Settings) -> None:
    """Exit when the file of keys cannot be used."""
    from ragstore.app import key_ring

    try:
        key_ring(chosen)
    except KeysError as error:
        raise click.ClickException(f"RAGSTORE_KEYS_FILE is wrong: {error}") from None


def _require_extras(chosen: Settings) -> None:
    """Exit if the settings need an extra that is not installed."""
    with one_line(MissingExtra):
        if chosen.store == "embedded":
            require_extra("ragstore[embedded]", "Embedded Chroma (RAGSTORE_CHROMA_URL is not set)", "chromadb")
        if is_configured(os.environ):
            modules = ("opentelemetry.exporter.otlp.proto.http", "opentelemetry.instrumentation.asgi")
            require_extra("ragstore[tracing]", "Tracing (OTEL_EXPORTER_OTLP_ENDPOINT is set)", *modules)


async def _status(chosen: Settings) -> StoreStatus:
    from ragstore.app import create_store

    store = create_store(chosen)
    await store.start()
    try:
        return await store.status()
    finally:
        await store.close()


def _check_index(chosen: Settings, collection: str, sample: int) -> None:
    """Print the share of documents that their own embedding does not find."""
    from ragstore.app import create_store
    from ragstore.model.index_check import IndexCheck, check_index

    async def measure() -> IndexCheck:
        store = create_store(chosen)
        await store.start()
        try:
            return await check_index(store, collection, sample)
        finally:
            await store.close()

    try:
        sampled, lost = asyncio.run(measure())
    except ServiceError as error:
        raise click.ClickException(error.detail) from None
    share = lost / sampled if sampled else 0.0
    click.echo(f"{collection}: the index lost {lost} of {sampled} sampled documents ({share:.1%})")
