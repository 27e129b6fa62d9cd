"""The `ragstore` command."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys

import click
import structlog
import uvicorn

from ragstore import __version__, logs, settings
from ragstore.errors import RagstoreError
from ragstore.settings import Settings, SettingsError
from ragstore.store.base import StoreStatus


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
    from ragstore.app import create_app
    from ragstore.http_protocol import ProblemProtocol

    chosen = loaded_settings()
    logs.configure(chosen)
    for name in settings.unknown():
        structlog.get_logger(__name__).warning("unknown setting", variable=name)
    if chosen.store == "embedded":
        _refuse_shared_data(chosen.data_path)
    # uvicorn stops gracefully and then raises the signal again; a stop that was asked for is no failure.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    app = create_app(chosen)
    # What exists by now stays: the garbage collector need not look at it again and again.
    gc.freeze()
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=chosen.host,
            port=chosen.port,
            http=ProblemProtocol,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=chosen.shutdown_seconds,
        )
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
    try:
        status = asyncio.run(_status(chosen))
    except RagstoreError as error:
        raise click.ClickException(f"Chroma ({chosen.store}) does not answer: {error.detail}") from None
    click.echo(f"Chroma ({chosen.store}) {status.chroma_version} answers: {status.collections_count} collections")


@main.command("openapi")
def print_openapi() -> None:
    """Print the OpenAPI document."""
    from ragstore.app import create_litestar
    from ragstore.openapi.document import document

    click.echo(document(create_litestar(Settings())), nl=False)


def _refuse_shared_data(path: str) -> None:
    """Stop before serving when another process has the data: Chroma itself would let two in, and lose data."""
    from ragstore.store.chroma_process import Refusal, locked

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
