"""The `ragstore` command."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import signal
import sys
import threading
from types import FrameType

import click
import structlog
import uvicorn

from ragstore import __version__, settings
from ragstore.kit.auth.commands import KeysFile, keys
from ragstore.kit.auth.keys import KeyRing, KeysError
from ragstore.kit.errors import ServiceError
from ragstore.kit.logging import configure as configure_logging
from ragstore.model.collections import StoreStatus
from ragstore.repair.commands import repair_folder
from ragstore.settings import Settings, SettingsError
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
@click.pass_context
def main(context: click.Context) -> None:
    """Store documents with pre-computed embeddings in ChromaDB and find them again.

    Settings come from RAGSTORE_* variables; `ragstore check` shows them.
    """
    context.obj = KeysFile(lambda: loaded_settings().keys_file)


@main.command()
def serve() -> None:
    """Run the service."""
    from ragstore.app import create_app
    from ragstore.kit.server.http_protocol import protocol

    chosen = loaded_settings()
    _refuse_open(chosen)
    _check_keys(chosen)
    configure_logging(chosen.log_level, chosen.log_format)
    for name in settings.unknown():
        structlog.get_logger(__name__).warning("unknown setting", variable=name)
    if chosen.store == "embedded":
        _require_chromadb()
        _refuse_shared_data(chosen.data_path)
    # uvicorn stops gracefully and then raises the signal again; a stop that was asked for is no failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    stopping = threading.Event()
    app = create_app(chosen, stopping)
    # What exists by now stays: the garbage collector need not look at it again and again.
    gc.freeze()
    server = _Server(
        uvicorn.Config(
            app,
            host=chosen.host,
            port=chosen.port,
            http=protocol(chosen.request_timeout_seconds),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=chosen.shutdown_seconds,
        ),
        stopping,
    )
    server.run()
    sys.exit(0 if server.started else 1)


@main.command()
def check() -> None:
    """Show the settings in force, secrets masked, and whether Chroma answers. Exit code 1 when it does not."""
    chosen = loaded_settings()
    for name, value in chosen.shown().items():
        click.echo(f"{name}={value}")
    for name in settings.unknown():
        click.echo(f"{name} is set and is no setting of ragstore")
    _check_keys(chosen)
    try:
        status = asyncio.run(_status(chosen))
    except ServiceError as error:
        raise click.ClickException(f"Chroma ({chosen.store}) does not answer: {error.detail}") from None
    click.echo(f"Chroma ({chosen.store}) {status.chroma_version} answers: {status.collections_count} collections")


@main.command("openapi")
def print_openapi() -> None:
    """Print the OpenAPI document."""
    from ragstore.api.openapi.document import document
    from ragstore.app import create_litestar

    click.echo(document(create_litestar(Settings())), nl=False)


main.add_command(keys)
main.add_command(repair_folder)
for command in transfer.COMMANDS:
    main.add_command(command)


def _refuse_open(chosen: Settings) -> None:
    """Stop before serving everything to everyone, unless that was asked for in so many words."""
    if not (chosen.is_loopback or chosen.keys_file or chosen.allow_open):
        raise click.ClickException(
            f"RAGSTORE_HOST={chosen.host} lets other machines in, and there are no keys: set RAGSTORE_KEYS_FILE, "
            "or RAGSTORE_ALLOW_OPEN=true if everyone who reaches the service may read and delete everything"
        )


def _check_keys(chosen: Settings) -> None:
    """Stop when there is to be a file of keys and it cannot be used."""
    try:
        if chosen.keys_file:
            KeyRing(chosen.keys_file, own_places=chosen.store == "remote")
    except KeysError as error:
        raise click.ClickException(f"RAGSTORE_KEYS_FILE is wrong: {error}") from None


class _Server(uvicorn.Server):
    """uvicorn, which tells the application that it stops as soon as it is asked to.

    Args:
        config: uvicorn's settings.
        stopping: set when the service stops.
    """

    def __init__(self, config: uvicorn.Config, stopping: threading.Event) -> None:
        super().__init__(config)
        self._stopping = stopping

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal to stop."""
        self._stopping.set()
        super().handle_exit(sig, frame)


def _require_chromadb() -> None:
    """Stop before serving where chromadb was left out, as in the image for a Chroma server."""
    if importlib.util.find_spec("chromadb") is None:
        raise click.ClickException("Embedded Chroma needs chromadb, which is not installed: set RAGSTORE_CHROMA_URL")


def _refuse_shared_data(path: str) -> None:
    """Stop before serving when another process has the data: Chroma itself would let two in, and lose data."""
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
