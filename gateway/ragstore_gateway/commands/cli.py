"""The `ragstore-gateway` command."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click
import structlog

from ragstore.kit.auth.commands import key_commands
from ragstore.kit.auth.keys import KeysError
from ragstore.kit.command_line import one_line, prepare_data
from ragstore.kit.logging import configure as configure_logging
from ragstore.kit.settings import SettingsError
from ragstore.settings import URL_VARIABLE as STORE_URL_VARIABLE
from ragstore.store.key_scope import STORE_KEYS
from ragstore_gateway import __version__, settings
from ragstore_gateway.commands.ask import ask
from ragstore_gateway.commands.audit import audit_commands
from ragstore_gateway.commands.evaluate import evaluate
from ragstore_gateway.commands.ingest import ingest
from ragstore_gateway.commands.kb.commands import kb
from ragstore_gateway.commands.mcp import mcp
from ragstore_gateway.commands.state import state_commands
from ragstore_gateway.engines.engine import EngineInvalid
from ragstore_gateway.engines.engines import check_installed
from ragstore_gateway.keys import GATEWAY_KEYS
from ragstore_gateway.settings import Settings, variable

if TYPE_CHECKING:
    from filelock import FileLock
    from litestar.types import ASGIApp


def loaded_settings() -> Settings:
    """The settings in force.

    Raises:
        click.ClickException: one is wrong; the program ends with one line that names it.
    """
    with one_line(SettingsError):
        return settings.load()


@click.group()
@click.version_option(__version__, prog_name="ragstore-gateway")
def main() -> None:
    """Embeddings, and OpenAI-compatible chat with retrieval.

    Settings come from RAGSTORE_GATEWAY_* variables; `ragstore-gateway check` shows them.
    """


@main.command()
def serve() -> None:
    """Run the gateway."""
    from ragstore_gateway.app import create_app

    chosen = _checked_settings()
    if not chosen.database_url or not (os.environ.get(STORE_URL_VARIABLE) or os.environ.get("RAGSTORE_CHROMA_URL")):
        prepare_data(chosen.data_path, variable("data_path"))
    lock = None if chosen.database_url else _locked(chosen.data_path)
    try:
        _check_store(chosen)
        _run(create_app, chosen)
    finally:
        if lock is not None:
            lock.release()


@main.command()
def worker() -> None:
    """Run jobs of ingestion beside gateways.

    Workers share PostgreSQL and the store with gateways that have RAGSTORE_GATEWAY_INGESTION_WORKERS=true. A worker
    serves its health and its metrics only.
    """
    from ragstore_gateway.app import create_worker

    _run(create_worker, _checked_settings())


def _checked_settings() -> Settings:
    """The settings of a process that serves. It logs from now on.

    Raises:
        click.ClickException: a setting or an installed engine is wrong.
    """
    from ragstore_gateway.app import SERVICE

    chosen = loaded_settings()
    with one_line(EngineInvalid, SettingsError):
        SERVICE.check_access(chosen)
        check_installed()
    configure_logging(chosen.log_level, chosen.log_format, SERVICE.name)
    for name, remedy in settings.unserved().items():
        structlog.get_logger(__name__).warning("variable without effect", variable=name, remedy=remedy)
    return chosen


def _run(create: Callable[[Settings, threading.Event], ASGIApp], chosen: Settings) -> NoReturn:
    """Run an application until a signal stops the process.

    Raises:
        click.ClickException: it cannot start; the program ends with one line that says why.
    """
    from ragstore.kit.server.runner import run
    from ragstore_gateway.app import METRICS
    from ragstore_gateway.embeddings.model_files import ModelDamaged

    with one_line(KeysError, ModelDamaged, SettingsError):
        run(lambda stopping: create(chosen, stopping), chosen, METRICS, facts={"version": __version__})


def _locked(path: str) -> FileLock:
    """Lock the folder of the gateway's state.

    Raises:
        click.ClickException: another gateway uses it.
    """
    from ragstore_gateway.database.state_lock import StateInUse, lock_state

    try:
        return lock_state(Path(path))
    except StateInUse:
        reason = "another gateway uses it; replicas share PostgreSQL (RAGSTORE_GATEWAY_DATABASE_URL)"
    except OSError as error:
        reason = error.strerror or type(error).__name__
    raise click.ClickException(f"{variable('data_path')}={path} cannot be used: {reason}")


def _check_store(chosen: Settings) -> None:
    """Check that no other service uses the data of a store in this process.

    Raises:
        click.ClickException: one does, or a setting of the store is wrong.
    """
    if os.environ.get(STORE_URL_VARIABLE):
        return
    from ragstore.app import check_data

    with one_line(SettingsError):
        own = settings.load_store(chosen)
    try:
        check_data(own)
    except SettingsError as error:
        message = f"{variable('data_path')}={chosen.data_path} cannot be used: {error}"
        raise click.ClickException(message) from None


@main.command(short_help="Show the settings in force, and try all that they name.")
def check() -> None:
    """Show the settings in force, secrets masked, and whether everything that they name can be used.

    The keys, the database, the store, the provider of embeddings and the model server are tried. Exit code 1 if one of
    them cannot be used. A data folder that does not exist is not created.
    """
    from ragstore_gateway.commands.check import check_all

    chosen = loaded_settings()
    for name, value in settings.shown(chosen).items():
        click.echo(f"{name}={value}")
    # Standard output has the results; what the parts log would repeat them.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    results = asyncio.run(check_all(chosen))
    for each in results:
        click.echo(f"{each.subject}: {each.text}")
    failed = [each.subject for each in results if not each.is_usable]
    if failed:
        raise click.ClickException(f"Not usable: {', '.join(failed)}")


@main.command("openapi")
def print_openapi() -> None:
    """Print the OpenAPI document."""
    from ragstore_gateway.api.openapi import document
    from ragstore_gateway.app import create_embeddings, create_litestar
    from ragstore_gateway.store.store import Store

    # A remote store and a remote provider, so that no store is opened and no model is loaded; nothing is sent to them.
    chosen = Settings(embedding_provider="tei", embedding_url="http://127.0.0.1:8000")
    store = Store(chosen, threading.Event(), "http://127.0.0.1:8080")
    click.echo(document(create_litestar(chosen, store, create_embeddings(chosen))), nl=False)


main.add_command(ingest)
main.add_command(ask)
main.add_command(kb)
main.add_command(evaluate)
main.add_command(mcp)
main.add_command(audit_commands(loaded_settings))
main.add_command(state_commands(loaded_settings))
main.add_command(
    key_commands(GATEWAY_KEYS, "RAGSTORE_GATEWAY_KEYS_FILE", lambda: loaded_settings().keys_file, [STORE_KEYS])
)
