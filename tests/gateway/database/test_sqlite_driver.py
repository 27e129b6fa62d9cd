"""The connection to SQLite: calls of its thread, long results, and transactions."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import aiosqlite
import pytest
from sqlalchemy import CursorResult, text

from ragstore_gateway.database.database import FILE, Database
from ragstore_gateway.database.sqlite_driver import FIRST_ROWS, SqliteConnection
from ragstore_gateway.errors import DatabaseUnavailable
from ragstore_gateway.settings import Settings
from tests.support.statements import thread_calls

SIZE = 100 * 2**20
"""Size of a large value."""


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """A database with a table of numbers."""
    database = Database.from_settings(Settings(data_path=str(tmp_path)))
    async with database.running():
        async with database.session() as session:
            await session.execute(text("CREATE TABLE number (value INTEGER)"))
            rows = [{"value": value} for value in range(2 * FIRST_ROWS + 1)]
            await session.execute(text("INSERT INTO number VALUES (:value)"), rows)
        yield database


@pytest.fixture
async def connection(tmp_path: Path) -> AsyncIterator[SqliteConnection]:
    """A connection."""
    connection = SqliteConnection(str(tmp_path / FILE), 1.0)
    await connection
    yield connection
    await connection.close()


async def test_a_connection_does_not_keep_a_large_value_that_it_has_written(connection: SqliteConnection) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    await connection.cursor().execute("CREATE TABLE body (content BLOB)")
    # Blocks of this size are mappings of their own, which the allocator returns when they are freed.
    content = bytes(SIZE)
    before = resident()
    await connection.cursor().execute("INSERT INTO body VALUES (?)", (content,))
    await connection.commit()

    assert resident() - before < SIZE // 2


async def test_a_session_that_reads_calls_the_thread_once_for_its_statement_and_once_for_its_end(
    database: Database,
) -> None:
    with thread_calls() as calls:
        async with database.reading() as session:
            await session.scalars(text("SELECT value FROM number LIMIT 5"))
    assert len(calls) == 2

    with thread_calls() as calls:
        async with database.reading():
            pass
    assert calls == []


async def test_a_function_reads_one_state_with_one_call_of_the_thread(database: Database) -> None:
    begun, written = threading.Event(), threading.Event()

    def read(connection: sqlite3.Connection) -> tuple[int, int]:
        (before,) = connection.execute("SELECT count(*) FROM number").fetchone()
        begun.set()
        assert written.wait(10)
        (after,) = connection.execute("SELECT count(*) FROM number").fetchone()
        return before, after

    with thread_calls() as calls:
        reading = asyncio.create_task(database.read_sqlite(read))
        await asyncio.to_thread(begun.wait, 10)
        assert len(calls) == 1
        async with database.session() as session:
            await session.execute(text("INSERT INTO number VALUES (0)"))
        written.set()
        before, after = await reading
    assert before == after
    assert await database.read_sqlite(lambda connection: connection.in_transaction) is True
    async with database.session() as session:  # a transaction that was not ended would fail here
        assert await session.scalar(text("SELECT count(*) FROM number")) == before + 1


async def test_a_function_that_fails_ends_its_transaction_and_a_lack_of_the_database_is_503(database: Database) -> None:
    def fail(_: sqlite3.Connection) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await database.read_sqlite(fail)
    with pytest.raises(DatabaseUnavailable):
        await database.read_sqlite(lambda connection: connection.execute("SELECT * FROM absent"))
    assert await database.read_sqlite(lambda connection: connection.execute("SELECT 1").fetchone()) == (1,)


async def test_a_result_has_all_rows(database: Database) -> None:
    async with database.reading() as session:
        for count in (0, 1, FIRST_ROWS - 1, FIRST_ROWS, FIRST_ROWS + 1, 2 * FIRST_ROWS, 2 * FIRST_ROWS + 1):
            query = text("SELECT value FROM number ORDER BY value LIMIT :count")
            assert list(await session.scalars(query, {"count": count})) == list(range(count))


async def test_a_stream_has_all_rows(database: Database) -> None:
    async with database.reading() as session:
        stream = await session.stream_scalars(text("SELECT value FROM number ORDER BY value"))
        found = [value async for part in stream.partitions(300) for value in part]
    assert found == list(range(2 * FIRST_ROWS + 1))


async def test_a_statement_that_changes_rows_and_returns_them_counts_them(database: Database) -> None:
    async with database.session() as session:
        change = await session.execute(text("UPDATE number SET value = value + 1 RETURNING value"))
        assert len(change.all()) == 2 * FIRST_ROWS + 1
        removed = await session.execute(text("DELETE FROM number WHERE value <= 10"))
        assert isinstance(removed, CursorResult)
        assert removed.rowcount == 10


async def test_a_session_that_reads_sees_one_state(database: Database) -> None:
    count = text("SELECT count(*) FROM number")
    async with database.reading() as session:
        before = await session.scalar(count)
        async with database.session() as writing:
            await writing.execute(text("DELETE FROM number"))
        assert await session.scalar(count) == before
    async with database.reading() as session:
        assert await session.scalar(count) == 0


async def test_a_statement_that_fails_leaves_the_transaction_usable_until_its_end(database: Database) -> None:
    async with database.session() as session:
        async with session.begin_nested():
            await session.execute(text("DELETE FROM number WHERE value = 0"))
        with pytest.raises(Exception, match="no such column"):
            async with session.begin_nested():
                await session.execute(text("SELECT unknown FROM number"))
        assert await session.scalar(text("SELECT min(value) FROM number")) == 1


async def test_a_statement_that_is_cancelled_changes_nothing(database: Database) -> None:
    slow = (
        "WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1000000) "
        "INSERT INTO number SELECT n FROM counted"
    )

    async def write() -> None:
        async with database.session() as session:
            await session.execute(text(slow))

    task = asyncio.create_task(write())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with database.session() as session:
        assert await session.scalar(text("SELECT count(*) FROM number")) == 2 * FIRST_ROWS + 1


async def test_a_transaction_that_began_with_its_first_statement_is_rolled_back(connection: SqliteConnection) -> None:
    connection.begin_later()
    await connection.cursor().execute("CREATE TABLE lost (value INTEGER)")
    assert connection.in_transaction
    await connection.rollback()
    assert not connection.in_transaction
    cursor = await connection.cursor().execute("SELECT count(*) FROM sqlite_schema")
    assert await cursor.fetchall() == [(0,)]


async def test_a_transaction_that_writes_excludes_others_from_its_first_statement_on(
    connection: SqliteConnection, tmp_path: Path
) -> None:
    connection.begin_later("BEGIN IMMEDIATE")
    assert not connection.in_transaction
    await connection.cursor().execute("SELECT count(*) FROM sqlite_schema")
    async with aiosqlite.connect(tmp_path / FILE, timeout=0) as other:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await other.execute("BEGIN IMMEDIATE")
    await connection.commit()
    assert not connection.in_transaction


async def test_the_rows_that_are_left_are_forgotten_when_a_cursor_is_closed(database: Database) -> None:
    async with database.session() as session:
        raw = await (await session.connection()).get_raw_connection()
        driver = raw.driver_connection
        assert isinstance(driver, SqliteConnection)
        cursor = await driver.cursor().execute("SELECT value FROM number ORDER BY value")
        assert await cursor.fetchmany(2) == [(0,), (1,)]
        await cursor.close()
        assert await cursor.fetchall() == []
