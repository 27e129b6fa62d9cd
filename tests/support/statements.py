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

    engine = cast(Any, database)._engine.sync_engine  # it is not public
    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)
