"""Looking assistants up: found, none, or unknown, which is never none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import sqlalchemy as sa
from sqlalchemy import URL

from ragstore_gateway.configurations.assistant import Assistant, Task
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.tables import ConfigurationVersionRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.database.engine import POOL_SIZE
from ragstore_gateway.errors import DatabaseUnavailable
from ragstore_gateway.retrieval import assistant_catalog as assistants_module
from ragstore_gateway.retrieval.assistant import AssistantModel, AssistantServices
from ragstore_gateway.retrieval.assistant_catalog import Assistants
from ragstore_gateway.settings import Settings

if TYPE_CHECKING:
    from ragstore_gateway.conversations.step import Step
    from ragstore_gateway.retrieval.tasks import TaskRetrieval
    from ragstore_gateway.retrieval.workflow import Workflows


def assistant(name: str, system_message: str = "") -> Assistant:
    """An assistant that searches nothing."""
    return Assistant(name=name, system_message=system_message, tasks=[Task()])


async def record(_: Step) -> None:
    """Record nothing."""


SERVICES = AssistantServices(
    Settings(model="fallback"), cast("Workflows", None), cast("TaskRetrieval", None), record=record
)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """A database that does not run yet. After its block of `running`, it is as unavailable as one that was stopped."""
    return Database(URL.create("sqlite+aiosqlite", database=str(tmp_path / "gateway.db")))


@asynccontextmanager
async def loaded(database: Database, *names: str) -> AsyncIterator[Assistants]:
    """Assistants of a replica that started while the database ran, and that has served none; the database is away."""
    configurations = Configurations(database, "assistants", Assistant)
    assistants = Assistants(configurations, SERVICES)
    async with AsyncExitStack() as stack:
        async with database.running():
            for name in names:
                await configurations.create(assistant(name, f"I am {name}."))
            await stack.enter_async_context(assistants.running())
        yield assistants


async def system_message(assistants: Assistants, name: str) -> str:
    """The system message of an assistant that is found."""
    found = await assistants.find(name)
    assert isinstance(found, AssistantModel)
    return found._configuration.body.own_system_message


async def until(reached: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_an_assistant_that_was_never_served_is_found_while_the_database_is_away(database: Database) -> None:
    async with loaded(database, "ops", "sales") as assistants:
        assert await system_message(assistants, "ops") == "I am ops."
        assert await system_message(assistants, "sales") == "I am sales."


async def test_a_name_that_is_not_known_while_the_database_is_away_is_unavailable_and_not_none(
    database: Database,
) -> None:
    async with loaded(database, "ops") as assistants:
        with pytest.raises(DatabaseUnavailable):
            await assistants.find("created-elsewhere")
        async with database.running():
            assert await assistants.find("created-elsewhere") is None


async def test_a_lookup_that_times_out_is_unavailable_and_not_none(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assistants_module, "LOOKUP_SECONDS", 0.05)
    async with loaded(database, "ops") as assistants, database.running(), AsyncExitStack() as others:
        for _ in range(2 * POOL_SIZE):
            session = await others.enter_async_context(database.reading())
            await session.execute(sa.text("SELECT 1"))
        with pytest.raises(DatabaseUnavailable):
            await assistants.find("created-elsewhere")
        assert await system_message(assistants, "ops") == "I am ops."


async def test_the_last_known_assistants_are_listed_and_an_unknown_list_is_not_empty(database: Database) -> None:
    async with loaded(database, "ops") as assistants:
        assert await assistants.upstream_models() == {"ops": "fallback"}
    never_loaded = Assistants(Configurations(database, "assistants", Assistant), SERVICES)
    with pytest.raises(DatabaseUnavailable):
        await never_loaded.upstream_models()


async def test_a_replica_that_starts_without_the_database_loads_the_assistants_when_it_is_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assistants_module, "RETRY_SECONDS", 0.01)
    configurations = Configurations(database, "assistants", Assistant)
    assistants = Assistants(configurations, SERVICES)
    async with database.running():
        await configurations.create(assistant("ops", "I am ops."))
    async with assistants.running():
        with pytest.raises(DatabaseUnavailable):
            await assistants.find("ops")
        async with database.running():
            await until(lambda: "ops" in assistants._known)
        assert await system_message(assistants, "ops") == "I am ops."


async def test_changes_of_other_replicas_are_loaded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assistants_module, "LOAD_AGAIN_SECONDS", 0.01)
    configurations = Configurations(database, "assistants", Assistant)
    assistants = Assistants(configurations, SERVICES)
    async with AsyncExitStack() as stack:
        async with database.running():
            created = [await configurations.create(assistant(name)) for name in ("changed", "deleted", "kept")]
            await stack.enter_async_context(assistants.running())
            kept = assistants._known["kept"]
            await configurations.update(created[0].id, 1, assistant("changed", "Version 2."))
            await configurations.delete(created[1].id)
            await until(lambda: "deleted" not in assistants._known)
            await until(lambda: assistants._known["changed"]._configuration.version == 2)
        assert await system_message(assistants, "changed") == "Version 2."
        assert assistants._known["kept"] is kept
        with pytest.raises(DatabaseUnavailable):
            await assistants.find("deleted")


async def test_what_a_request_looks_up_during_a_load_stays(database: Database) -> None:
    class Interrupted(Configurations[Assistant]):
        async def find_all_by_name(self, names: Iterable[str]) -> dict[str, Configuration[Assistant]]:
            read = await super().find_all_by_name(names)
            # Another replica changes one and deletes the other, and requests see it before the load ends.
            await self.update(created[0].id, 1, assistant("changed", "Version 2."))
            await self.delete(created[1].id)
            assert await system_message(assistants, "changed") == "Version 2."
            assert await assistants.find("deleted") is None
            return read

    configurations = Interrupted(database, "assistants", Assistant)
    assistants = Assistants(configurations, SERVICES)
    async with database.running():
        created = [await configurations.create(assistant(name)) for name in ("changed", "deleted")]
        for name in ("changed", "deleted"):
            await assistants.find(name)
        await assistants._load_all()
    assert await system_message(assistants, "changed") == "Version 2."
    with pytest.raises(DatabaseUnavailable):
        await assistants.find("deleted")


async def test_an_assistant_that_cannot_be_read_does_not_affect_the_others(database: Database) -> None:
    configurations = Configurations(database, "assistants", Assistant)
    assistants = Assistants(configurations, SERVICES)
    async with AsyncExitStack() as stack:
        async with database.running():
            for name in ("first", "newer", "last"):
                await configurations.create(assistant(name, f"I am {name}."))
            async with database.session() as session:
                # A newer gateway has written a field that this one does not know.
                body: sa.ColumnElement[Any] = ConfigurationVersionRow.body.expression
                await session.execute(
                    sa.update(ConfigurationVersionRow)
                    .where(body["name"].as_string() == "newer")
                    .values(body={"name": "newer", "tasks": [{}], "fromTheFuture": 1})
                )
            await stack.enter_async_context(assistants.running())
        assert await system_message(assistants, "first") == "I am first."
        assert await system_message(assistants, "last") == "I am last."
        with pytest.raises(DatabaseUnavailable):
            await assistants.find("newer")
