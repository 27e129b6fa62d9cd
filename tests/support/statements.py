"""The statements that a gateway's database executes, and the calls of the threads of SQLite's connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from sqlalchemy import event

from ragstore_gateway.database.database import Database
from ragstore_gateway.database.sqlite_driver import SqliteConnection


@contextmanager
def statements(database: Database) -> Iterator[list[str]]:
    """The statements of a block, without the beginnings of transactions, which are none on PostgreSQL."""
    found: list[str] = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        if not statement.startswith("BEGIN"):
            found.append(statement)

    engines = [each.sync_engine for each in cast(Any, database)._for_transactions.values()]  # they are not public
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    yield found
    for engine in engines:
        event.remove(engine, "before_cursor_execute", note)
    assert found, "no statement was seen"


@contextmanager
def thread_calls() -> Iterator[list[object]]:
    """The functions that a block has called in the threads of SQLite's connections. Each is a wait of its caller."""
    calls: list[object] = []
    execute = SqliteConnection._execute

    async def counted(self: SqliteConnection, function: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(function)
        return await execute(self, function, *arguments, **options)  # type: ignore[no-untyped-call]  # aiosqlite's

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteConnection, "_execute", counted)
        yield calls
