"""Brings the database to the newest schema."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.script.revision import ResolutionError
from alembic.util import CommandError
from sqlalchemy import Connection

from ragstore_gateway.database.errors import DatabaseNotUsable

FOLDER: Final = Path(__file__).parent / "migrations"

_LOCK: Final = 7_226_815_431_073_019_137
"""Number of PostgreSQL's advisory lock. It is arbitrary, and must never change."""


def alembic_config(connection: Connection) -> Config:
    """The configuration of alembic, for a connection.

    Args:
        connection: the connection that the migrations use.
    """
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


NEWER: Final = "The database was written by a newer version of the gateway, which changed its schema"


def is_current(connection: Connection) -> bool:
    """Whether a database has the schema of this version."""
    script = ScriptDirectory.from_config(alembic_config(connection))
    return MigrationContext.configure(connection).get_current_revision() == script.get_current_head()


def pending(connection: Connection) -> str:
    """Say in one sentence how a start would find a database.

    Raises:
        DatabaseNotUsable: the database has a schema that this version of the gateway does not know.
    """
    kind = "PostgreSQL" if connection.dialect.name == "postgresql" else "SQLite"
    found = MigrationContext.configure(connection).get_current_revision()
    script = ScriptDirectory.from_config(alembic_config(connection))
    known = {each.revision for each in script.walk_revisions()}
    if found is None:
        return f"{kind} is available, and empty: the first start creates the tables"
    if found not in known:
        raise DatabaseNotUsable(NEWER)
    if found == script.get_current_head():
        return f"{kind} is available"
    return f"{kind} is available; the next start migrates its schema"


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Run the migrations that the database lacks, all in one transaction.

    Several processes may start together: one of them migrates, and the others wait for it. On PostgreSQL they wait for
    an advisory lock; on SQLite the transaction, which the caller began with `BEGIN IMMEDIATE`, locks the file.

    Args:
        connection: a connection in a transaction.
        revision: the revision to upgrade to.

    Raises:
        DatabaseNotUsable: the database has a schema that this version of the gateway does not know.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    try:
        command.upgrade(alembic_config(connection), revision)
    except CommandError as error:
        if not isinstance(error.__cause__, ResolutionError):
            raise
        raise DatabaseNotUsable(NEWER) from None
