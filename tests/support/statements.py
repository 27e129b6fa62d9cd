"""The statements that a gateway's database executes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from sqlalchemy import event

from ragstore_gateway.database.database import Database


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
