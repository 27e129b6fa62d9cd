"""`ragstore-gateway state`: copies the gateway's state to another database."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import click

import ragstore_gateway
from ragstore.kit.data_folder import prepare_folder
from ragstore_gateway.settings import Settings


def import_tables() -> None:
    """Import the tables of all folders, which are the state: SQLAlchemy knows only tables that were imported."""
    for file in Path(ragstore_gateway.__file__).parent.glob("*/*tables.py"):
        importlib.import_module(f"ragstore_gateway.{file.parent.name}.{file.stem}")


def state_commands(loaded_settings: Callable[[], Settings]) -> click.Group:
    """The group of commands.

    Args:
        loaded_settings: reads the settings.
    """

    @click.group()
    def state() -> None:
        """Move the gateway's state."""

    @state.command("copy")
    @click.option("--to", "target", required=True, metavar="URL|FOLDER", help="PostgreSQL without state, or a folder.")
    def copy(target: str) -> None:
        """Copy the state of the settings to PostgreSQL, or to SQLite in a folder, and verify it.

        Configurations, documents, sources, files, conversations and the audit ledger are copied; vectors stay in their
        engines. The gateway may run, but what it writes after the beginning is not in the copy. If anything fails, the
        target stays as it was.
        """
        from ragstore_gateway.database.database import Database
        from ragstore_gateway.database.state_copy import CopyFailed, copy_state
        from ragstore_gateway.database.state_lock import StateInUse, lock_state

        import_tables()
        settings = loaded_settings()
        source = Database.from_settings(settings)
        if not source.is_postgresql and not Path(str(source.url.database)).exists():
            raise click.ClickException(f"There is no database at {source.url.database}")
        is_postgresql = target.startswith(("postgresql://", "postgres://"))
        given = Settings(database_url=target) if is_postgresql else Settings(data_path=target)
        try:
            with ExitStack() as stack:
                if not is_postgresql:
                    prepare_folder(Path(target))
                    lock = lock_state(Path(target))
                    stack.callback(lock.release)
                tables = asyncio.run(copy_state(source.url, Database.from_settings(given).url))
        except StateInUse:
            raise click.ClickException(f"{target} is in use by a gateway") from None
        except OSError as error:
            raise click.ClickException(f"{target} cannot be used: {error.strerror}") from None
        except CopyFailed as error:
            raise click.ClickException(str(error)) from None
        for table in tables:
            click.echo(f"{table.name}: {table.rows} rows, {table.hash[:16]}")
        click.echo(f"{sum(table.rows for table in tables)} rows copied and verified")

    return state
