"""The adapter of the engine `sqlite`: a search compares all rows of its collection."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiosqlite
import msgspec
import numpy as np

from ragstore.filters import where as language
from ragstore_client import Where
from ragstore_gateway.engines import filters
from ragstore_gateway.engines.engine import Adapter
from ragstore_gateway.engines.engine_collection import MAX_PASSAGES, MetadataValue, Passage, Record, Vector
from ragstore_gateway.engines.failures import StoreErrors, dimension_mismatch
from ragstore_gateway.engines.ranking import cosine_relevance, ranked
from ragstore_gateway.engines.shared_client import Secrets, SharedClient
from ragstore_gateway.engines.vectors import unit_matrix, unit_vector
from ragstore_gateway.secrets.secret_references import SecretReferences
from sqlite_engine import SqliteParameters

TABLES = """
CREATE TABLE IF NOT EXISTS collections (name TEXT PRIMARY KEY, dimension INTEGER);
CREATE TABLE IF NOT EXISTS records (
    collection TEXT, id TEXT, text TEXT, metadata TEXT, vector BLOB, PRIMARY KEY (collection, id)
);
"""


@dataclass
class Database:
    """A connection, and the lock of its transactions."""

    connection: aiosqlite.Connection
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class SqliteStore:
    """A collection in SQLite. See `EngineCollection`.

    Args:
        collection: its name.
        timeout_seconds: time limit of one call.
    """

    def __init__(self, client: SharedClient[Database], collection: str, dimension: int, timeout_seconds: float) -> None:
        self._client = client
        self._name = collection
        self._dimension = dimension
        self._errors = StoreErrors("sqlite", timeout_seconds, (sqlite3.Error,), lambda _: None)

    async def create(self) -> None:
        """Create the collection."""
        async with self._transaction() as sql:
            await sql.execute("INSERT OR IGNORE INTO collections VALUES (?, ?)", (self._name, self._dimension))
            found = await self._found_dimension(sql)
            if found != self._dimension:
                raise dimension_mismatch(found or 0, self._dimension)

    async def write(self, records: Sequence[Record]) -> None:
        """Store records."""
        async with self._transaction() as sql:
            if await self._found_dimension(sql) is None:
                raise self._errors.missing()
            if records:
                vectors = unit_matrix(records, self._dimension)
                rows = [
                    (
                        self._name,
                        record.id,
                        record.text,
                        msgspec.json.encode(record.metadata).decode(),
                        vector.tobytes(),
                    )
                    for record, vector in zip(records, vectors, strict=True)
                ]
                await sql.executemany("REPLACE INTO records VALUES (?, ?, ?, ?, ?)", rows)

    async def search(
        self, vector: Vector, limit: int, *, min_relevance: float = 0.0, where: Where | None = None
    ) -> list[Passage]:
        """Find the nearest records."""
        return ranked(await self._passages(vector, language.parse(where)), min(limit, MAX_PASSAGES), min_relevance)

    async def compare(self, vector: Vector, ids: Sequence[str]) -> list[Passage]:
        """Compare records with a vector."""
        return [passage for passage in await self._passages(vector, None) if passage.id in ids]

    async def delete(self, where: Where) -> int:
        """Delete the records that a filter selects."""
        filters.parse_deletion(where)
        selected = language.parse(where)
        async with self._transaction() as sql:
            ids = [id for id, _, metadata, _ in await self._rows(sql) if language.matches(selected, metadata)]
            await self._delete(sql, ids)
            return len(ids)

    async def delete_ids(self, ids: Sequence[str]) -> None:
        """Delete records by their ids."""
        async with self._transaction() as sql:
            await self._delete(sql, ids)

    async def count(self, where: Where | None = None) -> int:
        """Count the records that a filter selects."""
        selected = language.parse(where)
        async with self._transaction() as sql:
            return sum(language.matches(selected, metadata) for _, _, metadata, _ in await self._rows(sql))

    async def drop(self) -> None:
        """Remove the collection."""
        async with self._transaction() as sql:
            await sql.execute("DELETE FROM records WHERE collection = ?", (self._name,))
            await sql.execute("DELETE FROM collections WHERE name = ?", (self._name,))

    async def _passages(self, vector: Vector, where: language.Where | None) -> list[Passage]:
        """The records that a filter selects, compared with a vector."""
        query = unit_vector(vector, self._dimension)
        async with self._transaction() as sql:
            rows = await self._rows(sql)
        return [
            Passage(id, text, cosine_relevance(query, found), metadata)
            for id, text, metadata, found in rows
            if language.matches(where, metadata)
        ]

    async def _rows(self, sql: aiosqlite.Connection) -> list[tuple[str, str, dict[str, MetadataValue], Vector]]:
        found = await sql.execute_fetchall(
            "SELECT id, text, metadata, vector FROM records WHERE collection = ?", (self._name,)
        )
        return [
            (id, text, msgspec.json.decode(metadata, type=dict[str, MetadataValue]), np.frombuffer(vector, np.float32))
            for id, text, metadata, vector in found
        ]

    async def _delete(self, sql: aiosqlite.Connection, ids: Sequence[str]) -> None:
        rows = [(self._name, id) for id in ids]
        await sql.executemany("DELETE FROM records WHERE collection = ? AND id = ?", rows)

    async def _found_dimension(self, sql: aiosqlite.Connection) -> int | None:
        query = "SELECT dimension FROM collections WHERE name = ?"
        return next((int(row[0]) for row in await sql.execute_fetchall(query, (self._name,))), None)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[aiosqlite.Connection]:
        """A transaction, within the time limit; failures of SQLite are errors of the gateway."""
        async with self._errors.converted(), self._client.use() as database, database.lock:
            try:
                yield database.connection
            except BaseException:
                await database.connection.rollback()
                raise
            await database.connection.commit()


def connect(parameters: SqliteParameters, secrets: SecretReferences, _timeout_seconds: float) -> SharedClient[Database]:
    """Make the client of a file. Nothing is opened before its first use."""

    async def open_file(_: Secrets) -> Database:
        connection = await aiosqlite.connect(parameters.file)
        await connection.executescript(TABLES)
        return Database(connection)

    async def close_file(database: Database) -> None:
        await database.connection.close()

    return SharedClient(open_file, close_file, {}, secrets)


def open_collection(
    client: SharedClient[Database], _parameters: SqliteParameters, name: str, dimension: int, timeout_seconds: float
) -> SqliteStore:
    """Open a collection. Nothing is sent."""
    return SqliteStore(client, name, dimension, timeout_seconds)


ADAPTER = Adapter(connect, open_collection)
