"""`SqliteConnection`: aiosqlite's connection with one call of its thread for a statement, in place of four.

A call costs 0.2 ms of CPU time on the machine of the measurement, ten times what SQLite needs for most statements, and
SQLAlchemy makes one each for the cursor, the statement, its rows and the end of the cursor. A session that reads with
one statement made ten calls, the begin and the end of its transaction included. Now it makes two.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Self, TypeVar

import aiosqlite

T = TypeVar("T")

FIRST_ROWS: Final = 1000
"""Maximum number of rows that are read together with the execution of their statement."""

ITER_ROWS: Final = 64
"""Number of rows that aiosqlite's own iteration reads with one call."""


class SqliteConnection(aiosqlite.Connection):
    """A connection for SQLAlchemy's dialect `sqlite+aiosqlite`.

    Args:
        path: the file.
        timeout: maximum wait for a lock, in seconds.
    """

    def __init__(self, path: str, timeout: float) -> None:
        # A cached statement keeps its values: each connection would keep the last large body that it has written. That
        # a statement is compiled each time cannot be measured beside a call of the thread.
        super().__init__(lambda: sqlite3.connect(path, timeout=timeout, cached_statements=0), ITER_ROWS)
        # As SQLAlchemy does: a connection that is never closed must not keep the process.
        self._thread.daemon = True
        self._begin = ""
        self._called = 0
        self._returned = 0

    def begin_later(self, begin: str = "BEGIN") -> None:
        """Begin a transaction together with its first statement.

        Args:
            begin: the first statement of the transaction.
        """
        self._begin = begin

    def cursor(self) -> SqliteCursor:  # type: ignore[override]  # SQLAlchemy needs only what this one has
        """A cursor. It is opened when a statement is executed."""
        return SqliteCursor(self)

    async def commit(self) -> None:
        """Commit the transaction."""
        if self._begin:
            self._begin = ""
        else:
            await super().commit()

    async def rollback(self) -> None:
        """Roll back the transaction, if there is one."""
        self._begin = ""
        # SQLAlchemy calls this whenever a connection returns to the pool. A call that was cancelled may still run.
        if self._called != self._returned or self.in_transaction:
            await super().rollback()

    async def run(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Call a function in the thread of the connection, in a transaction that is to be begun.

        Args:
            function: gets the connection, which only this thread may use.
        """
        begin, self._begin = self._begin, ""

        def begun(connection: sqlite3.Connection) -> T:
            if begin:
                connection.execute(begin).close()
            return function(connection)

        return await self._call(begun)

    async def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Call a function in the thread of the connection, in a transaction of its own that only reads.

        Args:
            function: gets the connection, which only this thread may use.
        """

        def reading(connection: sqlite3.Connection) -> T:
            connection.execute("BEGIN").close()
            try:
                return function(connection)
            finally:
                connection.rollback()

        return await self._call(reading)

    async def _call(self, function: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            try:
                return function(self._conn)
            finally:
                self._returned += 1

        self._called += 1
        result: T = await self._execute(run)  # type: ignore[no-untyped-call]  # aiosqlite does not declare its types
        return result


class SqliteCursor:
    """A cursor that has the rows of its statement, or the first of many.

    Attributes:
        arraysize: number of rows that `fetchmany` returns by default.
        description: the columns; None if the statement returns no rows.
        rowcount: number of rows that the statement has changed; -1 if it changes none.
        lastrowid: the id of the row that was inserted last.
    """

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._open: sqlite3.Cursor | None = None
        self._rows: list[Any] = []
        self.arraysize = 1
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    async def __aenter__(self) -> Self:
        """The cursor."""
        return self

    async def execute(self, statement: str, parameters: Any = ()) -> Self:
        """Execute a statement, and read its first rows.

        Args:
            parameters: the parameters, by position or by name.
        """
        await self._connection.run(lambda connection: self._executed(connection.cursor(), statement, parameters))
        return self

    async def executemany(self, statement: str, parameters: Iterable[Any]) -> Self:
        """Execute a statement that returns no rows, several times.

        Args:
            parameters: the parameters for each time.
        """

        def run(connection: sqlite3.Connection) -> None:
            cursor = connection.cursor()
            try:
                cursor.executemany(statement, parameters)
                self.rowcount = cursor.rowcount
            finally:
                cursor.close()

        await self._connection.run(run)
        return self

    async def fetchall(self) -> Sequence[Any]:
        """All rows that are left."""
        rows, self._rows = self._rows, []
        if self._open is not None:
            rows += await self._read(None)
        return rows

    async def fetchmany(self, size: int | None = None) -> Sequence[Any]:
        """The next rows.

        Args:
            size: maximum number of rows.
        """
        size = size or self.arraysize
        if len(self._rows) < size and self._open is not None:
            self._rows += await self._read(max(size - len(self._rows), FIRST_ROWS))
        rows, self._rows = self._rows[:size], self._rows[size:]
        return rows

    async def close(self) -> None:
        """Forget the rows that are left."""
        self._rows = []
        cursor, self._open = self._open, None
        if cursor is not None:
            await self._connection.run(lambda _: cursor.close())

    def _executed(self, cursor: sqlite3.Cursor, statement: str, parameters: Any) -> None:
        try:
            cursor.execute(statement, parameters)
            self.description = cursor.description
            self._rows = cursor.fetchmany(FIRST_ROWS) if cursor.description else []
        except BaseException:
            cursor.close()
            raise
        self._keep(cursor, is_open=len(self._rows) == FIRST_ROWS)

    def _keep(self, cursor: sqlite3.Cursor, *, is_open: bool) -> None:
        # The number of changed rows of `UPDATE … RETURNING` is known when all of them were read.
        self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid
        self._open = cursor if is_open else None
        if not is_open:
            cursor.close()

    async def _read(self, size: int | None) -> list[Any]:
        def read(_: sqlite3.Connection) -> list[Any]:
            cursor = self._open
            if cursor is None:
                return []
            rows = cursor.fetchall() if size is None else cursor.fetchmany(size)
            self._keep(cursor, is_open=len(rows) == size)
            return rows

        return await self._connection.run(read)
