"""Sessions: transactions, concurrency, and errors of the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from prometheus_client import REGISTRY
from sqlalchemy import make_url, text
from sqlalchemy.exc import IntegrityError

from ragstore.kit import data_folder
from ragstore.kit.context import set_caller
from ragstore.kit.settings import SettingsError
from ragstore_gateway.database import database as database_module
from ragstore_gateway.database import engine as engine_module
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import DatabaseUnavailable
from ragstore_gateway.settings import load, shown

PASSWORD = "canary-password"


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A running database with a table of one row."""
    database = Database(make_url(database_url))
    async with database.running():
        async with database.session() as session:
            await session.execute(text("CREATE TABLE counter (count INTEGER NOT NULL)"))
            await session.execute(text("INSERT INTO counter VALUES (0)"))
        yield database


async def count(database: Database) -> int:
    async with database.reading() as session:
        return int((await session.execute(text("SELECT count FROM counter"))).scalar_one())


async def write(database: Database) -> None:
    async with database.session() as session:
        await session.execute(text("DELETE FROM configuration"))


async def fail(database: Database) -> None:
    async with database.session() as session:
        await session.execute(text("UPDATE counter SET count = 5"))
        raise ZeroDivisionError


async def increment(database: Database) -> None:
    """Read, and then write, in one transaction."""
    async with database.session() as session:
        await session.execute(text("SELECT count FROM counter"))
        await session.execute(text("UPDATE counter SET count = count + 1"))


async def test_a_session_is_committed_at_its_end_and_rolled_back_by_an_exception(database: Database) -> None:
    await increment(database)
    with pytest.raises(ZeroDivisionError):
        await fail(database)
    assert await count(database) == 1


async def test_concurrent_transactions_that_read_and_then_write_all_succeed(database: Database) -> None:
    await asyncio.gather(*(increment(database) for _ in range(30)))
    assert await count(database) == 30


async def test_on_sqlite_the_callers_of_transactions_that_write_take_turns(tmp_path: Path) -> None:
    """SQLite has no queue: a transaction waited for 1.2 s beside shorter ones."""
    database = Database(make_url(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}"))
    order: list[str] = []

    async def write_as(caller: str | None, name: str) -> None:
        if caller is not None:
            set_caller(caller)
        async with database.session() as session:
            await session.execute(text("DELETE FROM configuration"))
            order.append(name)

    async with database.running(), asyncio.TaskGroup() as group, database.session() as session:
        await session.execute(text("SELECT 1"))
        for number in range(5):
            group.create_task(write_as(None, f"job {number}"))
        for number in range(2):
            group.create_task(write_as("key", f"upload {number}"))
        group.create_task(write_as("other", "upload of another key"))
        await asyncio.sleep(0.1)
        assert order == []
    assert order[0] == "job 0"
    assert order[1:5] == ["upload 0", "upload of another key", "job 1", "upload 1"]
    assert order[5:] == ["job 2", "job 3", "job 4"]


async def test_a_reader_does_not_wait_for_a_writer(database: Database) -> None:
    async with database.session() as session:
        await session.execute(text("UPDATE counter SET count = 5"))
        assert await asyncio.wait_for(count(database), 5) == 0
    assert await count(database) == 5


async def test_foreign_keys_are_enforced(database: Database) -> None:
    statement = "INSERT INTO configuration_version VALUES ('none', 1, '{}', '2026-11-22 12:00:00', '')"
    with pytest.raises(IntegrityError):
        async with database.session() as session:
            await session.execute(text(statement))


async def test_a_writer_that_waits_too_long_is_503(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (database_module, engine_module):
        monkeypatch.setattr(module, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(engine_module, "POOL_SIZE", 1)
    database = Database(make_url(database_url))
    async with database.running(), AsyncExitStack() as stack:
        # SQLite has one writer; the pool of PostgreSQL has two connections here.
        for _ in range(2 if database.is_postgresql else 1):
            session = await stack.enter_async_context(database.session())
            await session.execute(text("SELECT 1"))
        with pytest.raises(DatabaseUnavailable) as raised:
            await write(database)
    assert raised.value.retry_after == 1


def failures(reason: str) -> float:
    """The counted failures of databases of this process."""
    found = REGISTRY.get_sample_value("ragstore_gateway_database_failures_total", {"reason": reason})
    assert found is not None
    return found


async def test_a_transaction_that_the_database_cannot_take_is_counted_and_one_that_fails_by_itself_is_not(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (database_module, engine_module):
        monkeypatch.setattr(module, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(engine_module, "POOL_SIZE", 1)
    database = Database(make_url(database_url))
    before = failures("unavailable")
    async with database.running(), AsyncExitStack() as stack:
        with pytest.raises(ZeroDivisionError):
            async with database.reading():
                raise ZeroDivisionError
        assert failures("unavailable") == before
        for _ in range(2 if database.is_postgresql else 1):
            session = await stack.enter_async_context(database.session())
            await session.execute(text("SELECT 1"))
        with pytest.raises(DatabaseUnavailable):
            await write(database)
    assert failures("unavailable") == before + 1


async def test_the_volume_of_sqlites_folder_is_measured_while_the_database_runs(database_url: str) -> None:
    def free() -> float | None:
        return REGISTRY.get_sample_value("ragstore_gateway_data_volume_free_bytes")

    database = Database(make_url(database_url))
    assert free() is None
    async with database.running():
        if database.is_postgresql:
            assert free() is None
        else:
            size = REGISTRY.get_sample_value("ragstore_gateway_data_volume_bytes")
            assert size is not None
            assert 0 < (free() or 0) <= size
    assert free() is None


async def test_a_database_that_is_not_running_is_503(database_url: str) -> None:
    with pytest.raises(DatabaseUnavailable):
        await Database(make_url(database_url)).ping()


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_each_scheme_of_postgresql_is_used_with_psycopg(scheme: str) -> None:
    settings = load({"RAGSTORE_GATEWAY_DATABASE_URL": f"{scheme}://user:{PASSWORD}@db.example/gateway"})
    database = Database.from_settings(settings)
    assert database.is_postgresql
    assert database.url.drivername == "postgresql+psycopg"
    assert PASSWORD not in str(database.url)
    assert PASSWORD not in str(shown(settings))


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://user:{PASSWORD}@db.example/gateway",
        f"sqlite:///{PASSWORD}",
        PASSWORD,
        f"postgresql://db.example/gateway?password={PASSWORD}",
        f"postgresql://user:{PASSWORD}@db.example:port/gateway",
    ],
)
def test_another_address_of_a_database_is_rejected_without_its_password(url: str) -> None:
    with pytest.raises(SettingsError, match="RAGSTORE_GATEWAY_DATABASE_URL is wrong") as raised:
        load({"RAGSTORE_GATEWAY_DATABASE_URL": url})
    assert PASSWORD not in str(raised.value)


async def test_a_database_whose_disk_is_full_or_whose_file_is_gone_is_not_ready(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await database.ping()
    # More than any disk has.
    monkeypatch.setattr(data_folder, "MIN_FREE_BYTES", 2**80)
    if database.is_postgresql:
        await database.ping()
        return
    with pytest.raises(DatabaseUnavailable, match="The disk of the data folder is full"):
        await database.ping()
    monkeypatch.undo()
    await database.ping()
    await asyncio.to_thread(Path(str(database.url.database)).unlink)
    before = failures("unavailable")
    with pytest.raises(DatabaseUnavailable, match="The data folder is gone"):
        await database.ping()
    assert failures("unavailable") == before + 1
