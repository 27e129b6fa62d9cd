"""Counts the changes of the tables whose rows are cached.

SQLite's own `data_version` changes with each commit, and each chat commits a step of the ledger. Triggers count the
changes of some tables. On PostgreSQL, the row of a counter would be a lock for which all transactions wait.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Final

from sqlalchemy import Connection

CACHED_TABLES: Final = ("configuration", "configuration_version", "document", "vector_collection")
"""The tables whose rows a `VersionedCache` has. Each table that one of them reads must be here."""

_CHANGES: Final = ("INSERT", "UPDATE", "DELETE")

_CACHED_CHANGES: Final = {
    ("document", "INSERT"): ("INSERT", "WHEN NEW.current_revision IS NOT NULL"),
    ("document", "UPDATE"): ("UPDATE OF id, base_id, current_revision, modified_on", ""),
}
"""Events and conditions of triggers for changes of rows that are cached. Of documents, the visible revisions are: each
upload adds or changes a row of a document whose visible revision stays the same."""

_COUNT: Final = "UPDATE change_counter SET changes = changes + 1;"


def count_changes(connection: Connection, tables: Iterable[str] = CACHED_TABLES) -> None:
    """Let SQLite count the changes of tables, whichever process makes them.

    It is repeated at each start: a migration that copies a table drops its triggers, and another version may have made
    other ones.

    Args:
        connection: a connection in a transaction.
    """
    connection.exec_driver_sql(
        "CREATE TABLE IF NOT EXISTS change_counter (id INTEGER PRIMARY KEY CHECK (id = 1), changes INTEGER NOT NULL)"
    )
    connection.exec_driver_sql("INSERT OR IGNORE INTO change_counter VALUES (1, 0)")
    for table, change in product(tables, _CHANGES):
        name = f"count_{change.lower()}_{table}"
        event, condition = _CACHED_CHANGES.get((table, change), (change, ""))
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")
        connection.exec_driver_sql(f"CREATE TRIGGER {name} AFTER {event} ON {table} {condition} BEGIN {_COUNT} END")


class ChangeWatch:
    """A connection to SQLite that only looks whether other connections have written. Its reads take microseconds.

    Args:
        path: SQLite's file.
    """

    def __init__(self, path: str) -> None:
        uri = f"{Path(path).resolve().as_uri()}?mode=ro"
        self._connection = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
        self._version: object = None
        self._changes: object = None

    def version(self) -> object:
        """A value that changes with each commit."""
        return self._first("PRAGMA data_version")

    def cached_version(self) -> object:
        """A value that changes with each commit that changes a cached table."""
        version = self.version()
        if version != self._version:
            self._changes = self._first("SELECT changes FROM change_counter")
            self._version = version
        return self._changes

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _first(self, query: str) -> object:
        try:
            return self._connection.execute(query).fetchone()[0]
        except sqlite3.Error:
            # The read that follows reports what is wrong.
            return object()
