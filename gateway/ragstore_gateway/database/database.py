"""`Database`: its sessions, and the migrations that run when it starts."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, TypeVar

import structlog
from sqlalchemy import URL, make_url, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import configure_mappers

from ragstore.kit.data_folder import OWNER_ONLY, FolderUnusableError, usable_bytes
from ragstore.kit.fair_queue import FairSemaphore
from ragstore.kit.tracing.spans import span
from ragstore_gateway.database import metrics
from ragstore_gateway.database.change_counter import ChangeWatch, count_changes
from ragstore_gateway.database.engine import BUSY_SECONDS, WRITE, create_engine
from ragstore_gateway.database.errors import DatabaseNotUsable
from ragstore_gateway.database.migrate import pending, upgrade
from ragstore_gateway.database.sqlite_driver import SqliteConnection
from ragstore_gateway.errors import DatabaseUnavailable, InsufficientStorage
from ragstore_gateway.settings import Settings

FILE: Final = "gateway.db"
"""Name of SQLite's file in the folder of the gateway's state."""

START_SECONDS: Final = 30.0
"""How long a start waits for PostgreSQL: a database often starts together with the gateway."""

UNAVAILABLE: Final = "The database cannot be used at the moment"

DISK_FULL: Final = "53100"
"""PostgreSQL's code of a disk without room."""

_AFTER_COMMIT: Final = "after_commit"
"""Key of a session's functions that are called when its transaction is committed."""

_log = structlog.get_logger(__name__)

T = TypeVar("T")


class Database:
    """The gateway's state.

    Args:
        url: SQLAlchemy's URL, with an asynchronous driver.

    Attributes:
        url: SQLAlchemy's URL. Its text form masks the password.
        is_postgresql: whether it is PostgreSQL, and not SQLite.
    """

    def __init__(self, url: URL) -> None:
        self.url = url
        self.is_postgresql = url.get_backend_name() == "postgresql"
        self._engine: AsyncEngine | None = None
        self._for_transactions: dict[bool, AsyncEngine] = {}
        self._watch: ChangeWatch | None = None
        # SQLite has no queue: writers look again after a wait, and the next one is the first that looks.
        self._writers = FairSemaphore(1)
        # SQLAlchemy would do this with the first query, in 50 ms of the event loop.
        configure_mappers()

    @classmethod
    def from_settings(cls, settings: Settings) -> Database:
        """The database that the settings choose: PostgreSQL, or SQLite in the folder of the gateway's state."""
        if settings.database_url:
            url = make_url(settings.database_url).set(drivername="postgresql+psycopg")
        else:
            url = URL.create("sqlite+aiosqlite", database=str(Path(settings.data_path) / FILE))
        return cls(url)

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Migrate the database to the newest schema, and open the pool of connections; close it at the end.

        Raises:
            DatabaseNotUsable: the database cannot be reached within 30 s, or its schema is of a newer version.
        """
        await self._migrate()
        self._engine = create_engine(self.url)
        # Made once: an engine with options costs a fifth of a transaction that reads.
        self._for_transactions = {write: self._engine.execution_options(**{WRITE: write}) for write in (False, True)}
        folder = "" if self.is_postgresql else str(Path(str(self.url.database)).parent)
        if folder:
            self._watch = ChangeWatch(str(self.url.database))
            metrics.VOLUME.watch(folder)
        try:
            yield
        finally:
            metrics.VOLUME.release(folder)
            engine, self._engine = self._engine, None
            watch, self._watch = self._watch, None
            if watch is not None:
                watch.close()
            await engine.dispose()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncSession]:
        """A session in a transaction, which is committed when the block ends and rolled back if it raises.

        On SQLite, transactions run one after the other; a further one waits up to 10 s. The callers of requests take
        turns, and work outside of requests is one of them. Do not nest sessions.

        Raises:
            DatabaseUnavailable: the database does not respond, is busy, or rejects the connection.
        """
        async with self._session(write=True) as session:
            yield session

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncSession]:
        """A session in a transaction that only reads. On SQLite it never waits for one that writes.

        Raises:
            DatabaseUnavailable: the database does not respond, is busy, or rejects the connection.
        """
        async with self._session(write=False) as session:
            yield session

    async def read_sqlite(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Call a function in a transaction that only reads SQLite: one call of a thread for all of its statements.

        Args:
            function: reads with the connection, in its thread.

        Raises:
            DatabaseUnavailable: the database is busy, or cannot be read.
        """
        if self._engine is None:
            raise DatabaseUnavailable("The database is not open")
        with span("sqlite read", "client", {"db.system.name": "sqlite"}), _unavailable():
            async with self._engine.connect() as connection:
                driver = (await connection.get_raw_connection()).driver_connection
                assert isinstance(driver, SqliteConnection)  # noqa: S101  # `create_engine` has chosen it
                return await driver.read(function)

    async def version(self) -> object:
        """A value that is equal to an earlier one only if no transaction of any process was committed between them.

        With SQLite, this is a look at shared memory, of some microseconds; with PostgreSQL, one statement.

        Raises:
            DatabaseUnavailable: PostgreSQL does not respond.
        """
        if self._engine is None:
            raise DatabaseUnavailable("The database is not open")
        if self._watch is not None:
            return self._watch.version()
        with _unavailable():
            async with self._engine.connect() as connection:
                connection = await connection.execution_options(isolation_level="AUTOCOMMIT")
                # The transactions that a query would see. Only a transaction that writes gets a number.
                return await connection.scalar(text("SELECT pg_current_snapshot()::text"))

    async def cached_version(self) -> object:
        """As `version`, for the tables whose rows are cached: on SQLite, changes of other tables do not count.

        Raises:
            DatabaseUnavailable: PostgreSQL does not respond.
        """
        return await self.version() if self._watch is None else self._watch.cached_version()

    async def ping(self) -> None:
        """Check that the database responds, and that SQLite's file can be written.

        Raises:
            DatabaseUnavailable: it does not, or cannot.
        """
        if not self.is_postgresql:
            try:
                await asyncio.to_thread(usable_bytes, Path(str(self.url.database)))
            except FolderUnusableError as error:
                metrics.failed("unavailable")
                raise DatabaseUnavailable(str(error)) from None
        async with self.reading() as session:
            await session.execute(text("SELECT 1"))

    async def examine(self) -> str:
        """Look at the database, which is not open, and change nothing.

        Returns:
            One sentence.

        Raises:
            DatabaseNotUsable: it cannot be reached, or its schema is of a newer version.
        """
        engine = create_engine(self.url, migrating=True)
        try:
            async with engine.execution_options(**{WRITE: False}).connect() as connection:
                return await connection.run_sync(pending)
        except (OperationalError, InterfaceError, OSError) as error:
            raise DatabaseNotUsable(error_text(error)) from None
        finally:
            await engine.dispose()

    async def overwrite_deleted(self, session: AsyncSession) -> None:
        """Have SQLite overwrite what a session deletes from now on.

        Args:
            session: a session of `session`.
        """
        if not self.is_postgresql:
            await session.execute(text("PRAGMA secure_delete = ON"))

    async def checkpoint(self) -> None:
        """Move SQLite's write-ahead log to its file, so that the log has nothing that was overwritten there.

        While another transaction reads, a part of the log may stay until the next checkpoint.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        if self.is_postgresql:
            return
        if self._engine is None:
            raise DatabaseUnavailable("The database is not open")
        engine = self._engine.execution_options(**{WRITE: None})
        with _unavailable():
            async with engine.connect() as connection:
                await connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")

    @asynccontextmanager
    async def _session(self, *, write: bool) -> AsyncIterator[AsyncSession]:
        if self._engine is None:
            raise DatabaseUnavailable("The database is not open")
        engine = self._for_transactions[write]
        system = "postgresql" if self.is_postgresql else "sqlite"
        name = f"{system} {'write' if write else 'read'}"
        with span(name, "client", {"db.system.name": system}), _unavailable():
            async with self._turn(write=write), AsyncSession(engine, expire_on_commit=False) as session:
                async with session.begin():
                    yield session
                for call in session.info.get(_AFTER_COMMIT, ()):
                    call()

    @asynccontextmanager
    async def _turn(self, *, write: bool) -> AsyncIterator[None]:
        """Wait until no other transaction of this process writes to SQLite.

        Raises:
            DatabaseUnavailable: it takes too long.
        """
        if self.is_postgresql or not write:
            yield
            return
        try:
            async with asyncio.timeout(BUSY_SECONDS):
                await self._writers.acquire()
        except TimeoutError:
            metrics.failed("unavailable")
            raise DatabaseUnavailable(UNAVAILABLE).because("other transactions have not ended") from None
        try:
            yield
        finally:
            self._writers.release()

    async def _migrate(self) -> None:
        if not self.is_postgresql:
            folder = Path(str(self.url.database)).parent
            try:
                await asyncio.to_thread(folder.mkdir, OWNER_ONLY, parents=True, exist_ok=True)
            except OSError as error:
                raise DatabaseNotUsable(f"The folder {folder} cannot be used: {error.strerror}") from None
        engine = create_engine(self.url, migrating=True)
        loop = asyncio.get_running_loop()
        end = loop.time() + START_SECONDS
        waiting = False
        try:
            while True:
                try:
                    async with engine.execution_options(**{WRITE: True}).begin() as connection:
                        await connection.run_sync(upgrade)
                        if not self.is_postgresql:
                            await connection.run_sync(count_changes)
                    return
                except (OperationalError, InterfaceError, OSError) as error:
                    if loop.time() >= end or _is_final(error):
                        reason = f"The database cannot be used: {error_text(error)}"
                        raise DatabaseNotUsable(reason) from None
                    if not waiting:
                        _log.warning("database not reachable yet", error=error_text(error), seconds=START_SECONDS)
                    waiting = True
                await asyncio.sleep(1)
        finally:
            await engine.dispose()


def after_commit(session: AsyncSession, call: Callable[[], object]) -> None:
    """Call a function when the transaction of a session is committed, and not if it is rolled back.

    Args:
        session: a session of `Database.session`.
        call: the function. It must not raise.
    """
    session.info.setdefault(_AFTER_COMMIT, []).append(call)


@contextmanager
def _unavailable() -> Iterator[None]:
    """Turn failures of the database into `DatabaseUnavailable`."""
    try:
        yield
    except (OperationalError, InterfaceError, PoolTimeoutError, sqlite3.OperationalError) as error:
        if _is_full(error.orig if isinstance(error, DBAPIError) else error):
            metrics.failed("full")
            full = InsufficientStorage("The disk of the database is full; nothing was written")
            raise full.because(error_text(error)) from error
        metrics.failed("unavailable")
        raise DatabaseUnavailable(UNAVAILABLE).because(error_text(error)) from error
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        metrics.failed("unavailable")
        raise DatabaseUnavailable(UNAVAILABLE).because(error_text(error)) from error


def _is_final(error: SQLAlchemyError | OSError) -> bool:
    """Whether waiting is of no use. Another process may leave SQLite's file; a folder is not repaired by time."""
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", None)
    return code is not None and code & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _is_full(error: BaseException | None) -> bool:
    # By the drivers' codes. psycopg is loaded only with PostgreSQL.
    return (
        getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL or getattr(error, "sqlstate", "") == DISK_FULL
    )


def error_text(error: SQLAlchemyError | sqlite3.Error | OSError) -> str:
    """Why the database cannot be used, without parameters of a statement, in one line."""
    text = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    return " ".join(text.split())[:300]
