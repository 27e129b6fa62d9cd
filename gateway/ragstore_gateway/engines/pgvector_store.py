"""`pgvector`: tables of PostgreSQL with the extension pgvector, one for each collection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import numpy as np
from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from ragstore.kit.errors import ServiceError
from ragstore_client import Where
from ragstore_gateway.engines import filters
from ragstore_gateway.engines.engine import Adapter
from ragstore_gateway.engines.engine_collection import MetadataValue, Passage, Record, Vector
from ragstore_gateway.engines.failures import StoreErrors, check_dimension, dimension_mismatch, empty_if_missing
from ragstore_gateway.engines.filters import All, Compared, Either, Filter, Not, OneOf
from ragstore_gateway.engines.names import physical_name
from ragstore_gateway.engines.ranking import relevance, search_ranked
from ragstore_gateway.engines.shared_client import Secrets, SharedClient
from ragstore_gateway.engines.store_parameters import PgvectorParameters
from ragstore_gateway.engines.vectors import unit_matrix, unit_vector
from ragstore_gateway.secrets.secret_references import SecretReferences

CONNECT_SECONDS: Final = 5
MAX_CONNECTIONS: Final = 10
KEEPALIVE_SECONDS: Final = 30
MAX_DIMENSION: Final = 16_000
MAX_INDEXED_DIMENSION: Final = 2000
"""Maximum dimension of pgvector's index over `vector`."""

MAX_HALF_DIMENSION: Final = 4000
"""Maximum dimension of pgvector's index over `halfvec`. Longer vectors are searched without an index."""

MIN_INDEX_VERSION: Final = (0, 8)
"""The first version of pgvector whose index continues its search until enough rows match a filter."""

MAX_EF_SEARCH: Final = 1000
MAX_SCANNED: Final = 100_000
"""Maximum number of entries of the index that one search with a filter reads."""

STATEMENT_SHARE: Final = 0.9
"""Share of the time limit after which PostgreSQL ends a statement. Its cancellation by the client takes longer."""

NUL_SUBSTITUTE: Final = "\N{SYMBOL FOR NULL}"
"""Replaces NUL, which PostgreSQL's texts cannot contain, so that offsets in a text stay as they are."""

_ORDERS: Final = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_UNDEFINED_TABLE: Final = "42P01"
_PROBLEMS: Final = {
    "42501": "does not permit a statement to its user",
    "42704": "does not have the type vector in the search path of its user",
    "0A000": "does not have the extension vector",
    "58P01": "does not have the extension vector",
    "53300": "has no free connections",
    "57014": "ended a statement at the time limit",
}
"""Meanings of SQLSTATEs whose cause an operator can remove."""

_REJECTIONS: Final = frozenset({"0A", "22", "28", "42", "54"})
"""Classes of SQLSTATEs of a statement that would fail again: a feature that is missing, data, credentials, syntax and
permissions, limits of the server."""


def connect_pgvector(
    parameters: PgvectorParameters, secrets: SecretReferences, timeout_seconds: float
) -> SharedClient[AsyncEngine]:
    """The pool of connections to a database.

    Args:
        parameters: the database.
        secrets: resolves the reference to its password.
        timeout_seconds: time limit of one call.
    """

    async def connect(values: Secrets) -> AsyncEngine:
        url = URL.create(
            "postgresql+psycopg",
            parameters.user,
            values["password"],
            parameters.host,
            parameters.port,
            parameters.database,
        )
        arguments = {
            "connect_timeout": CONNECT_SECONDS,
            "sslmode": parameters.ssl_mode,
            "application_name": "ragstore-gateway",
            "client_encoding": "UTF8",
            # PgBouncer rejects other parameters, and its connections do not keep the statements that they prepared.
            "prepare_threshold": None,
            # A firewall may forget connections without closing them.
            "keepalives_idle": KEEPALIVE_SECONDS,
            "keepalives_interval": KEEPALIVE_SECONDS // 3,
            "keepalives_count": 3,
            "tcp_user_timeout": int(timeout_seconds * 1000),
        }
        return create_async_engine(
            url,
            connect_args=arguments,
            pool_size=MAX_CONNECTIONS,
            max_overflow=0,
            pool_pre_ping=True,
            pool_timeout=timeout_seconds,
            hide_parameters=True,
        )

    return SharedClient(connect, AsyncEngine.dispose, {"password": parameters.password}, secrets)


class PgvectorStore:
    """A table. See `EngineCollection`.

    Args:
        client: the pool of connections.
        collection: name of the collection.
        timeout_seconds: time limit of one call.
    """

    def __init__(
        self,
        client: SharedClient[AsyncEngine],
        parameters: PgvectorParameters,
        collection: str,
        dimension: int,
        timeout_seconds: float,
    ) -> None:
        self._client = client
        self._parameters = parameters
        self._dimension = dimension
        self._name = physical_name(parameters.table, collection)
        # The name has letters, digits, - and _ only.
        self._table = f'"{self._name}"'
        self._is_indexed = parameters.index == "hnsw" and dimension <= MAX_HALF_DIMENSION
        self._is_half = self._is_indexed and dimension > MAX_INDEXED_DIMENSION
        self._statement_timeout = f"{int(STATEMENT_SHARE * timeout_seconds * 1000)}ms"
        self._errors = StoreErrors("pgvector", timeout_seconds, (SQLAlchemyError, OSError), self._error)

    async def create(self) -> None:
        """Create the table and its indexes."""
        configured = self._parameters.dimension
        if configured not in (None, self._dimension):
            raise dimension_mismatch(int(configured or 0), self._dimension)
        check_dimension("pgvector", self._dimension, MAX_DIMENSION)
        async with self._transaction() as connection:
            # Statements with IF NOT EXISTS that run concurrently fail on the catalogue's unique indexes.
            lock = "SELECT pg_advisory_xact_lock(hashtext('ragstore-gateway'))"
            await connection.exec_driver_sql(lock)
            version = await self._extension_version(connection)
            if self._is_indexed and version < MIN_INDEX_VERSION:
                problem = f"has pgvector {'.'.join(map(str, version))}, and the index hnsw needs 0.8 or later"
                raise self._errors.unavailable(problem, RuntimeError())
            found = await self._stored_dimension(connection)
            if found is None:
                await self._create_table(connection)
        if found not in (None, self._dimension):
            raise dimension_mismatch(int(found or 0), self._dimension)

    async def write(self, records: Sequence[Record]) -> None:
        """Store records, in one transaction."""
        if not records:
            return
        vectors = unit_matrix(records, self._dimension)
        rows = [
            {
                "id": record.id,
                "text": _text(record.text),
                "metadata": _json({_text(key): _value(value) for key, value in record.metadata.items()}),
                "vector": _literal(vector),
            }
            for record, vector in zip(records, vectors, strict=True)
        ]
        # Concurrent transactions that lock the same rows in one order have no deadlock.
        rows.sort(key=lambda row: row["id"])
        statement = (
            f"INSERT INTO {self._table} (id, content, metadata, embedding) "  # noqa: S608 - a checked name
            "VALUES (%(id)s::uuid, %(text)s, %(metadata)s::jsonb, %(vector)s::vector) ON CONFLICT (id) DO UPDATE SET "
            "content = excluded.content, metadata = excluded.metadata, embedding = excluded.embedding"
        )
        async with self._transaction() as connection:
            await connection.exec_driver_sql(statement, rows)

    async def search(
        self, vector: Vector, limit: int, *, min_relevance: float = 0.0, where: Where | None = None
    ) -> list[Passage]:
        """Find the nearest records."""
        condition = _Condition()
        clause = condition.of(filters.parse(where))
        arguments = {**condition.arguments, "vector": _literal(unit_vector(vector, self._dimension))}
        statement = self._search_statement(clause)

        async def fetch(count: int) -> list[Passage]:
            if not self._is_indexed:
                return await run(count)
            await self._configure_index(connection, count)
            found = await run(count)
            if len(found) < count:
                # The index ends its search at limits of its entries and of its memory. Other plans compare all rows.
                await self._set(connection, enable_indexscan="off")
                found = await run(count)
            return found

        async def run(count: int) -> list[Passage]:
            limits = {"limit": count, "candidates": 2 * count}
            found = await connection.exec_driver_sql(statement, {**arguments, **limits})
            return [
                Passage(row["id"], row["content"], relevance(row["cosine"]), row["metadata"])
                for row in found.mappings()
            ]

        async with empty_if_missing(), self._transaction() as connection:
            return await search_ranked(fetch, limit, min_relevance)
        return []

    async def compare(self, vector: Vector, ids: Sequence[str]) -> list[Passage]:
        """Compare records with a vector."""
        arguments = {"vector": _literal(unit_vector(vector, self._dimension)), "ids": list(ids)}
        statement = (
            "SELECT id::text, content, metadata, embedding::text AS vector, "  # noqa: S608 - a checked name
            f"-(embedding <#> %(vector)s::vector) AS cosine FROM {self._table} WHERE id = ANY(%(ids)s::uuid[])"
        )
        async with empty_if_missing(), self._transaction() as connection:
            found = await connection.exec_driver_sql(statement, arguments)
            return [
                Passage(
                    row["id"],
                    row["content"],
                    relevance(row["cosine"]),
                    row["metadata"],
                    vector=np.asarray(msgspec.json.decode(row["vector"], type=list[float]), dtype=np.float32),
                )
                for row in found.mappings()
            ]
        return []

    async def delete(self, where: Where) -> int:
        """Delete the records that a filter selects."""
        condition = _Condition()
        clause = condition.of(filters.parse_deletion(where))
        async with empty_if_missing(), self._transaction() as connection:
            statement = f"DELETE FROM {self._table} WHERE {clause}"  # noqa: S608 - a checked name
            return (await connection.exec_driver_sql(statement, condition.arguments)).rowcount
        return 0

    async def delete_ids(self, ids: Sequence[str]) -> None:
        """Delete rows by their ids."""
        async with empty_if_missing(), self._transaction() as connection:
            statement = f"DELETE FROM {self._table} WHERE id = ANY(%(ids)s::uuid[])"  # noqa: S608 - a checked name
            await connection.exec_driver_sql(statement, {"ids": list(ids)})

    async def count(self, where: Where | None = None) -> int:
        """Count the records that a filter selects."""
        condition = _Condition()
        clause = condition.of(filters.parse(where))
        async with empty_if_missing(), self._transaction() as connection:
            statement = f"SELECT count(*) FROM {self._table} WHERE {clause}"  # noqa: S608 - a checked name
            return int((await connection.exec_driver_sql(statement, condition.arguments)).scalar_one())
        return 0

    async def drop(self) -> None:
        """Remove the table."""
        async with self._transaction() as connection:
            await connection.exec_driver_sql(f"DROP TABLE IF EXISTS {self._table}")

    async def _create_table(self, connection: AsyncConnection) -> None:
        for statement in (
            f"CREATE TABLE {self._table} (id uuid PRIMARY KEY, content text NOT NULL, metadata jsonb NOT NULL, "
            f"embedding vector({self._dimension}) NOT NULL)",
            f"CREATE INDEX ON {self._table} USING gin (metadata jsonb_path_ops)",
        ):
            await connection.exec_driver_sql(statement)
        if self._is_indexed:
            type_, column = ("halfvec", f"({self._half('embedding')})") if self._is_half else ("vector", "embedding")
            await connection.exec_driver_sql(f"CREATE INDEX ON {self._table} USING hnsw ({column} {type_}_ip_ops)")

    def _search_statement(self, clause: str) -> str:
        # The negative inner product of vectors of length 1 is the negative cosine. It is 0, not NaN, for zeros.
        columns, distance = "id::text, content, metadata", "embedding <#> %(vector)s::vector"
        source = f"{self._table} WHERE {clause}"
        if not self._is_half:
            return f"SELECT {columns}, -({distance}) AS cosine FROM {source} ORDER BY {distance} LIMIT %(limit)s"  # noqa: S608 - a checked name
        # The index has the order of 16-bit numbers. The nearest rows are compared again.
        nearest = f"{self._half('embedding')} <#> {self._half('%(vector)s')}"
        return (
            f"WITH nearest AS MATERIALIZED (SELECT id, content, metadata, embedding FROM {source} "  # noqa: S608 - a checked name
            f"ORDER BY {nearest} LIMIT %(candidates)s) "
            f"SELECT {columns}, -({distance}) AS cosine FROM nearest ORDER BY {distance} LIMIT %(limit)s"
        )

    def _half(self, value: str) -> str:
        return f"{value}::halfvec({self._dimension})"

    @staticmethod
    async def _extension_version(connection: AsyncConnection) -> tuple[int, ...]:
        """The version of pgvector, which is installed if it is not."""
        query = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
        found = (await connection.exec_driver_sql(query)).first()
        if found is None:
            await connection.exec_driver_sql("CREATE EXTENSION vector")
            found = (await connection.exec_driver_sql(query)).one()
        return tuple(int(part) for part in str(found[0]).split(".") if part.isdigit())

    async def _stored_dimension(self, connection: AsyncConnection) -> int | None:
        statement = (
            "SELECT atttypmod FROM pg_attribute WHERE attrelid = to_regclass(%(table)s) AND attname = 'embedding'"
        )
        row = (await connection.exec_driver_sql(statement, {"table": self._table})).first()
        return None if row is None else int(row[0])

    async def _configure_index(self, connection: AsyncConnection, count: int) -> None:
        settings = {
            "hnsw.ef_search": str(max(40, min(2 * count, MAX_EF_SEARCH))),
            "hnsw.iterative_scan": "strict_order",
            "hnsw.max_scan_tuples": str(MAX_SCANNED),
        }
        await self._set(connection, **settings)

    @staticmethod
    async def _set(connection: AsyncConnection, **settings: str) -> None:
        """Change settings until the end of the transaction: a pooler may share the connection."""
        calls = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
        await connection.exec_driver_sql(f"SELECT {calls}")

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        async with self._errors.converted(), self._client.use() as engine, engine.begin() as connection:
            await self._set(connection, statement_timeout=self._statement_timeout)
            yield connection

    def _error(self, error: Exception) -> ServiceError | None:
        state = getattr(error.orig, "sqlstate", None) if isinstance(error, DBAPIError) else None
        if state == _UNDEFINED_TABLE:
            return self._errors.missing()
        if state is None:
            return None
        problem = _PROBLEMS.get(state, "responds with an error")
        make = self._errors.rejected if state[:2] in _REJECTIONS else self._errors.unavailable
        return make(f"{problem} (SQLSTATE {state})", error)


ADAPTER: Final = Adapter(connect_pgvector, PgvectorStore)


@dataclass
class _Condition:
    """Translates a filter to SQL. Values are arguments; JSON compares them as the `where` language does."""

    arguments: dict[str, Any] = field(default_factory=dict)

    def of(self, filter_: Filter) -> str:
        match filter_:
            case OneOf(key, values):
                # Containment uses the index.
                parts = [f"metadata @> {self._argument(_json({_text(key): _value(value)}))}::jsonb" for value in values]
                return f"({' OR '.join(parts)})"
            case Compared(key, order, number):
                value = f"metadata -> {self._argument(_text(key))}::text"
                number_ = f"{self._argument(_json(number))}::jsonb"
                return f"coalesce(jsonb_typeof({value}) = 'number' AND {value} {_ORDERS[order]} {number_}, false)"
            case Not(inner):
                return f"(NOT {self.of(inner)})"
            case All(filters_):
                return f"({' AND '.join(map(self.of, filters_))})" if filters_ else "true"
            case Either(filters_):
                return f"({' OR '.join(map(self.of, filters_))})" if filters_ else "false"

    def _argument(self, value: str) -> str:
        name = f"p{len(self.arguments)}"
        self.arguments[name] = value
        return f"%({name})s"


def _text(text: str) -> str:
    return text.replace("\0", NUL_SUBSTITUTE)


def _value(value: MetadataValue) -> MetadataValue:
    return _text(value) if isinstance(value, str) else value


def _json(value: Mapping[str, MetadataValue] | MetadataValue) -> str:
    return msgspec.json.encode(value).decode()


def _literal(vector: Vector) -> str:
    return msgspec.json.encode(vector.tolist()).decode()
