"""Rows that were read from the database are remembered until a cached table changes, by whichever process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import make_url, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from ragstore_gateway.configurations.tables import ConfigurationRow
from ragstore_gateway.database.change_counter import CACHED_TABLES, count_changes
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.versioned_cache import VersionedCache
from ragstore_gateway.ingestion.acceptance import new_document
from ragstore_gateway.ingestion.tables import DocumentRow


@pytest.fixture
async def two(database_url: str) -> AsyncIterator[tuple[Database, Database]]:
    """The database as two processes have it."""
    async with AsyncExitStack() as stack:
        databases = Database(make_url(database_url)), Database(make_url(database_url))
        for database in databases:
            await stack.enter_async_context(database.running())
        async with databases[0].session() as session:
            await session.execute(text("CREATE TABLE tea (id INTEGER PRIMARY KEY, name TEXT)"))
            await session.execute(text("INSERT INTO tea VALUES (1, 'green')"))
            await session.execute(text("CREATE TABLE cup (id INTEGER PRIMARY KEY)"))
            if not databases[0].is_postgresql:
                await (await session.connection()).run_sync(count_changes, ("tea",))
        yield databases


class Names:
    """Names by id, through a cache.

    Attributes:
        reads: the ids of each read.
    """

    def __init__(self, database: Database, max_entries: int = 100) -> None:
        self.reads: list[Sequence[int]] = []
        self._database = database
        self._cache: VersionedCache[int, str] = VersionedCache(database, max_entries)

    async def get(self, *ids: int) -> dict[int, str]:
        """The names of ids."""
        return await self._cache.get(ids, self._load)

    async def _load(self, ids: Sequence[int]) -> Mapping[int, str]:
        self.reads.append(ids)
        async with self._database.reading() as session:
            found = await session.execute(text("SELECT id, name FROM tea"))
            return {id: name for id, name in found if id in ids}


async def test_the_version_is_equal_as_long_as_nothing_is_committed(two: tuple[Database, Database]) -> None:
    version = await two[0].version()
    async with two[0].reading() as session:
        await session.execute(text("SELECT * FROM tea"))
    assert await two[0].version() == version
    for writer in two:
        async with writer.session() as session:
            await session.execute(text("UPDATE tea SET name = name || '!'"))
        changed = await two[0].version()
        assert changed != version
        version = changed


async def test_an_entry_is_read_once_and_again_after_a_commit_of_any_process(two: tuple[Database, Database]) -> None:
    names = Names(two[0])
    assert [await names.get(1) for _ in range(3)] == [{1: "green"}] * 3
    assert names.reads == [[1]]
    async with two[1].session() as session:
        await session.execute(text("UPDATE tea SET name = 'black'"))
    assert await names.get(1) == {1: "black"}
    assert names.reads == [[1], [1]]


async def test_only_missing_keys_are_read_and_keys_without_a_value_are_remembered(
    two: tuple[Database, Database],
) -> None:
    names = Names(two[0])
    assert await names.get(1, 2) == {1: "green"}
    assert await names.get(2, 3, 1) == {1: "green"}
    assert await names.get() == {}
    assert names.reads == [[1, 2], [3]]


async def test_beyond_the_maximum_all_entries_are_dropped(two: tuple[Database, Database]) -> None:
    names = Names(two[0], max_entries=2)
    await names.get(1, 2, 3)
    await names.get(1)
    assert names.reads == [[1, 2, 3], [1]]


async def test_a_transaction_that_is_open_during_a_read_makes_the_entry_invalid_when_it_is_committed(
    two: tuple[Database, Database],
) -> None:
    names = Names(two[0])
    async with two[1].session() as session:
        await session.execute(text("UPDATE tea SET name = 'black'"))
        assert await names.get(1) == {1: "green"}
    assert await names.get(1) == {1: "black"}


async def test_on_sqlite_a_commit_that_changes_no_cached_table_keeps_the_entries(
    two: tuple[Database, Database],
) -> None:
    names = Names(two[0])
    await names.get(1)
    async with two[1].session() as session:
        await session.execute(text("INSERT INTO cup VALUES (1)"))
    await names.get(1)
    assert names.reads == ([[1], [1]] if two[0].is_postgresql else [[1]])


@pytest.mark.parametrize("change", ["INSERT INTO tea VALUES (2, 'black')", "UPDATE tea SET id = 2", "DELETE FROM tea"])
async def test_each_kind_of_change_makes_the_entries_invalid(two: tuple[Database, Database], change: str) -> None:
    names = Names(two[0])
    await names.get(1)
    async with two[1].session() as session:
        await session.execute(text(change))
    await names.get(1)
    assert names.reads == [[1], [1]]


async def test_on_sqlite_the_changes_of_each_cached_table_count_also_after_its_triggers_were_dropped(
    tmp_path: Path,
) -> None:
    url = make_url(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}")
    counted = {f"count_{change}_{table}" for table in CACHED_TABLES for change in ("insert", "update", "delete")}
    database = Database(url)
    for _ in range(2):
        async with database.running(), database.session() as session:
            found = await session.scalars(text("SELECT name FROM sqlite_master WHERE type = 'trigger'"))
            assert counted <= {*found}
            await session.execute(text(f"DROP TRIGGER count_update_{CACHED_TABLES[0]}"))


async def test_on_sqlite_an_upload_keeps_the_entries_and_a_publication_does_not(tmp_path: Path) -> None:
    database = Database(make_url(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}"))
    now = datetime.now(UTC)
    async with database.running(), database.session() as session:
        # A version of the gateway before made this trigger.
        await session.execute(text("DROP TRIGGER count_insert_document"))
        await session.execute(
            text(
                "CREATE TRIGGER count_insert_document AFTER INSERT ON document "
                "BEGIN UPDATE change_counter SET changes = changes + 1; END"
            )
        )
        session.add(
            ConfigurationRow(
                id="base",
                kind="rags",
                name="base",
                current_version=1,
                deleted=False,
                created_on=now,
                modified_on=now,
                tenant="",
            )
        )
    async with database.running():
        known = await database.cached_version()

        async def is_kept(change: Callable[[AsyncSession], Awaitable[object]]) -> bool:
            nonlocal known
            before = known
            async with database.session() as session:
                await change(session)
            known = await database.cached_version()
            return before == known

        async def upload(session: AsyncSession) -> None:
            session.add(new_document("base", "tea", now))

        async def upload_again(session: AsyncSession) -> None:
            (row,) = await session.scalars(select(DocumentRow))
            row.last_sequence += 1

        async def publish(session: AsyncSession) -> None:
            (row,) = await session.scalars(select(DocumentRow))
            row.current_revision = "revision"

        async def touch(session: AsyncSession) -> None:
            (row,) = await session.scalars(select(DocumentRow))
            row.modified_on = now + timedelta(seconds=1)

        async def delete(session: AsyncSession) -> None:
            (row,) = await session.scalars(select(DocumentRow))
            await session.delete(row)

        assert await is_kept(upload)
        assert await is_kept(upload_again)
        assert not await is_kept(publish)
        assert await is_kept(upload_again)
        assert not await is_kept(touch)
        assert not await is_kept(delete)
