"""Engines of SQLAlchemy, and the connections to SQLite."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec
from sqlalchemy import URL, Connection, event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from ragstore_gateway.database.sqlite_driver import SqliteConnection

BUSY_SECONDS: Final = 10.0
"""Maximum wait for another transaction that writes to SQLite, and for a connection of the pool."""

CONNECT_SECONDS: Final = 5
"""Maximum wait for a connection to PostgreSQL."""

POOL_SIZE: Final = 10

WRITE: Final = "ragstore_write"
"""Name of the execution option of transactions that may write."""


def create_engine(url: URL, *, migrating: bool = False) -> AsyncEngine:
    """An engine.

    Args:
        url: the database.
        migrating: whether it is for migrations: one connection, without foreign keys on SQLite, where alembic copies
            tables.
    """
    options: dict[str, Any] = {
        "json_serializer": lambda value: msgspec.json.encode(value).decode(),
        "json_deserializer": msgspec.json.decode,
        "hide_parameters": True,
    }
    if migrating:
        options["poolclass"] = NullPool
    else:
        options |= {"pool_size": POOL_SIZE, "max_overflow": POOL_SIZE, "pool_timeout": BUSY_SECONDS}
    if url.get_backend_name() == "postgresql":
        arguments = {"connect_timeout": CONNECT_SECONDS, "application_name": "ragstore-gateway"}
        return create_async_engine(url, pool_pre_ping=True, connect_args=arguments, **options)
    engine = create_async_engine(url, async_creator=partial(_connect_sqlite, str(url.database)), **options)
    event.listen(engine.sync_engine, "connect", _configure_sqlite(foreign_keys=not migrating))
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


async def _connect_sqlite(path: str) -> SqliteConnection:
    connection = SqliteConnection(path, BUSY_SECONDS)
    await connection
    return connection


def _configure_sqlite(*, foreign_keys: bool) -> Any:
    def configure(connection: Any, _: ConnectionPoolEntry) -> None:
        # The driver's own transactions begin only before some statements, and never before DDL.
        connection.isolation_level = None
        cursor = connection.cursor()
        for name, value in (
            ("journal_mode", "WAL"),
            # An acknowledged write survives a loss of power.
            ("synchronous", "FULL"),
            ("foreign_keys", "ON" if foreign_keys else "OFF"),
        ):
            cursor.execute(f"PRAGMA {name} = {value}")
        cursor.close()
        # SQLite's own knows ASCII only; a search in any case uses it.
        connection.run_async(lambda driver: driver.create_function("lower", 1, _lower, deterministic=True))

    return configure


def _lower(text: object) -> object:
    return text.lower() if isinstance(text, str) else text


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads first and then writes fails when another one has written meanwhile, without waiting.
    write = connection.get_execution_options().get(WRITE, True)
    if write is not None:  # a checkpoint is no part of a transaction
        driver = connection.connection.driver_connection
        assert isinstance(driver, SqliteConnection)  # noqa: S101  # `create_engine` has chosen it
        driver.begin_later("BEGIN IMMEDIATE" if write else "BEGIN")
