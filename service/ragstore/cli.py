"""The `ragstore` command."""

from __future__ import annotations

import asyncio
import importlib.util

import click
import structlog

from ragstore import __version__, settings
from ragstore.kit.auth.commands import key_commands
from ragstore.kit.auth.keys import KeysError
from ragstore.kit.errors import ServiceError
from ragstore.kit.logging import configure as configure_logging
from ragstore.kit.settings import SettingsError
from ragstore.model.collections import StoreStatus
from ragstore.repair.commands import repair_folder
from ragstore.settings import Settings
from ragstore.store.key_scope import STORE_KEYS
from ragstore.transfer import commands as transfer


def loaded_settings() -> Settings:
    """The settings in force.

    Raises:
        click.ClickException: one is wrong; the program ends with one line that names it.
    """
    try:
        return settings.load()
    except SettingsError as error:
        raise click.ClickException(str(error)) from None


@click.group()
@click.version_option(__version__, prog_name="ragstore")
def main() -> None:
    """Store documents with pre-computed embeddings in ChromaDB and find them again.

    Settings come from RAGSTORE_* variables; `ragstore check` shows them.
    """


@main.command()
def serve() -> None:
    """Run the service."""
    from ragstore.app import METRICS, SERVICE, create_app
    from ragstore.kit.server.runner import run

    chosen = loaded_settings()
    try:
        SERVICE.check_access(chosen)
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    _check_keys(chosen)
    configure_logging(chosen.log_level, chosen.log_format, SERVICE.name)
    for name in settings.unknown():
        structlog.get_logger(__name__).warning("unknown setting", variable=name)
    if chosen.store == "embedded":
        _require_chromadb()
        _refuse_shared_data(chosen.data_path)
    run(lambda stopping: create_app(chosen, stopping), chosen, METRICS)


@main.command()
def check() -> None:
    """Show the settings in force, secrets masked, and whether Chroma is available. Exit code 1 if it is not."""
    chosen = loaded_settings()
    for name, value in settings.shown(chosen).items():
        click.echo(f"{name}={value}")
    for name in settings.unknown():
        click.echo(f"{name} is set, but is not a setting of ragstore")
    _check_keys(chosen)
    try:
        status = asyncio.run(_status(chosen))
    except ServiceError as error:
        raise click.ClickException(f"Chroma ({chosen.store}) is not available: {error.detail}") from None
    click.echo(f"Chroma ({chosen.store}) {status.chroma_version} is available: {status.collections_count} collections")


@main.command("openapi")
def print_openapi() -> None:
    """Print the OpenAPI document."""
    from ragstore.api.openapi.document import document
    from ragstore.app import create_litestar

    click.echo(document(create_litestar(Settings())), nl=False)


main.add_command(key_commands(STORE_KEYS, "RAGSTORE_KEYS_FILE", lambda: loaded_settings().keys_file))
main.add_command(repair_folder)
for command in transfer.COMMANDS:
    main.add_command(command)


def _check_keys(chosen: Settings) -> None:
    """Exit when the file of keys cannot be used."""
    from ragstore.app import key_ring

    try:
        key_ring(chosen)
    except KeysError as error:
        raise click.ClickException(f"RAGSTORE_KEYS_FILE is wrong: {error}") from None


def _require_chromadb() -> None:
    """Exit where chromadb is not installed, as in the image for a Chroma server."""
    if importlib.util.find_spec("chromadb") is None:
        raise click.ClickException("Embedded Chroma needs chromadb, which is not installed: set RAGSTORE_CHROMA_URL")


def _refuse_shared_data(path: str) -> None:
    """Exit when another process uses the data: Chroma itself would admit both, and lose data."""
    from ragstore.chroma.embedded.process import Refusal, locked

    try:
        locked(path).release()
    except (Refusal, OSError) as error:
        reason = error.text if isinstance(error, Refusal) else error.strerror
        raise click.ClickException(f"RAGSTORE_DATA_PATH cannot be used: {reason}") from None


async def _status(chosen: Settings) -> StoreStatus:
    from ragstore.app import create_store

    store = create_store(chosen)
    await store.start()
    try:
        return await store.status()
    finally:
        await store.close()
