"""Migrations: from an empty database and from every earlier version, on both engines, by several processes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, make_url

from ragstore_gateway.commands.state import import_tables
from ragstore_gateway.database import database as database_module
from ragstore_gateway.database.base import Base
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.engine import create_engine
from ragstore_gateway.database.errors import DatabaseNotUsable
from ragstore_gateway.database.migrate import FOLDER, upgrade

pytestmark = pytest.mark.usefixtures("real_migrations")

T = TypeVar("T")

SCRIPTS: Final = ScriptDirectory(str(FOLDER))
REVISIONS: Final = [script.revision for script in reversed(list(SCRIPTS.walk_revisions()))]
HEAD: Final = SCRIPTS.get_current_head()
NOW: Final = datetime(2026, 11, 22, 12, 30, 15, 123456, tzinfo=UTC)

CONFIGURATION: Final = {
    "id": "one",
    "kind": "rags",
    "name": "handbook",
    "current_version": 1,
    "deleted": False,
    "created_on": NOW,
    "modified_on": NOW,
}
ROWS: Final[dict[str, list[dict[str, Any]]]] = {
    "configuration": [CONFIGURATION, {**CONFIGURATION, "id": "two", "deleted": True}],
    "configuration_version": [
        {
            "configuration_id": "one",
            "version": 1,
            "body": {"name": "handbook", "minScore": 0.25},
            "created_on": NOW,
            "created_by": "ops",
        }
    ],
}
"""Rows of the first version."""

VALUES: Final[dict[type, Any]] = {
    str: "one",
    int: 1,
    float: 0.5,
    bool: False,
    bytes: b"one",
    datetime: NOW,
    object: {"name": "handbook"},  # JSON
}
"""A value for each type of column. The same text everywhere satisfies foreign keys."""


async def on(url: str, work: Callable[..., T], *arguments: object) -> T:
    """Do something over a connection with the options of a migration."""
    engine = create_engine(make_url(url), migrating=True)
    async with engine.begin() as connection:
        result = await connection.run_sync(work, *arguments)
    await engine.dispose()
    return result


def revision_of(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def insert(connection: Connection, rows: dict[str, list[dict[str, Any]]], metadata: sa.MetaData | None = None) -> None:
    """Write rows to tables.

    Args:
        metadata: the tables; they are reflected when None, which takes longer than anything else here.
    """
    if metadata is None:
        metadata = sa.MetaData()
        metadata.reflect(connection, only=list(rows))
    for table, values in rows.items():
        sqlite = connection.dialect.name == "sqlite"
        stored = [{key: _naive(each) if sqlite else each for key, each in row.items()} for row in values]
        connection.execute(metadata.tables[table].insert(), stored)


def _naive(value: object) -> object:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


def stored(connection: Connection, table: str) -> list[dict[str, Any]]:
    """The rows of a table, as the driver returns them."""
    return [dict(row) for row in connection.execute(sa.text(f'SELECT * FROM "{table}"')).mappings()]


async def test_an_empty_database_is_migrated_to_the_newest_schema_when_it_starts(database_url: str) -> None:
    database = Database(make_url(database_url))
    async with database.running():
        await database.ping()
    assert await on(database_url, revision_of) == HEAD


async def test_a_migrated_database_is_started_again_without_a_change(database_url: str) -> None:
    database = Database(make_url(database_url))
    async with database.running():
        pass
    await on(database_url, insert, ROWS)
    async with database.running():
        pass
    assert len(await on(database_url, stored, "configuration")) == 2


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_rows_of_a_database_of_each_version_survive_the_upgrade(database_url: str, revision: str) -> None:
    await on(database_url, upgrade, REVISIONS[0])
    await on(database_url, insert, ROWS)
    await on(database_url, upgrade, revision)
    await on(database_url, fill)
    before = await on(database_url, all_rows)
    assert all(before.values())
    async with Database(make_url(database_url)).running():
        pass
    assert await on(database_url, revision_of) == HEAD
    after = await on(database_url, all_rows)
    for table, rows in before.items():
        for row in rows:
            kept = {key: value for key, value in row.items() if key in after[table][0]}
            assert any(kept.items() <= each_row.items() for each_row in after[table]), table


def fill(connection: Connection) -> None:
    """Write a row to each table that has none."""
    metadata = sa.MetaData()
    metadata.reflect(connection)
    for table in metadata.sorted_tables:
        if not stored(connection, table.name):
            values = {column.name: VALUES[column.type.python_type] for column in table.columns}
            insert(connection, {table.name: [values]}, metadata)


def all_rows(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    """The rows of all tables of the gateway."""
    tables = set(sa.inspect(connection).get_table_names()) - {"alembic_version"}
    return {table: stored(connection, table) for table in tables}


async def test_models_and_migrations_do_not_drift_apart(database_url: str) -> None:
    import_tables()
    await on(database_url, upgrade)

    def differences(connection: Connection) -> list[Any]:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return list(compare_metadata(context, Base.metadata))

    assert await on(database_url, differences) == []


async def test_a_missing_column_would_be_noticed(database_url: str) -> None:
    import_tables()
    await on(database_url, upgrade)

    def differences(connection: Connection) -> list[Any]:
        connection.execute(sa.text("ALTER TABLE configuration_version DROP COLUMN created_by"))
        return list(compare_metadata(MigrationContext.configure(connection), Base.metadata))

    assert [(kind, table) for kind, _, table, *_ in await on(database_url, differences)] == [
        ("add_column", "configuration_version")
    ]


@pytest.mark.process
async def test_processes_that_start_together_migrate_once(database_url: str) -> None:
    code = (
        "import asyncio, sys\n"
        "from sqlalchemy import make_url\n"
        "from ragstore_gateway.database.database import Database\n"
        "async def main():\n"
        "    database = Database(make_url(sys.argv[1]))\n"
        "    print('imported', flush=True)\n"
        "    sys.stdin.readline()\n"
        "    async with database.running():\n"
        "        await database.ping()\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", code, database_url]
    pipe = subprocess.PIPE
    processes = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(2)]
    for each in processes:
        assert each.stdout is not None
        assert await each.stdout.readline() == b"imported\n"
    errors = await asyncio.gather(*(each.communicate(b"start\n") for each in processes))
    assert [each.returncode for each in processes] == [0, 0], errors
    assert await on(database_url, revision_of) == HEAD


async def test_a_database_of_a_newer_version_is_rejected_and_not_changed(database_url: str) -> None:
    await on(database_url, upgrade)
    await on(database_url, _set_revision, "9999")
    with pytest.raises(DatabaseNotUsable, match="newer version of the gateway"):
        async with Database(make_url(database_url)).running():
            pass
    assert await on(database_url, revision_of) == "9999"


def _set_revision(connection: Connection, revision: str) -> None:
    connection.execute(sa.text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})


async def test_a_database_that_cannot_be_reached_ends_the_start_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "START_SECONDS", 0.0)
    database = Database(make_url("postgresql+psycopg://user:canary-secret@127.0.0.1:1/x"))
    with pytest.raises(DatabaseNotUsable, match="The database cannot be used") as raised:
        async with database.running():
            pass
    assert "canary-secret" not in str(raised.value)
    assert "\n" not in str(raised.value)
