"""The repository of configurations against a simple model, over SQLite: any sequence of operations agrees with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import delete, make_url

from ragstore.kit.errors import ServiceError
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.tables import ConfigurationRow
from ragstore_gateway.database.database import Database

NAMES = st.sampled_from(["tea", "tea-copy", "Tea", "kaffee", "käse", "x" * 128])
DESCRIPTIONS = st.sampled_from(["", "about TEA", "100%"])
FILTERS = st.sampled_from(["", "tea", "TEA", "KÄSE", "%", "copy"])


@dataclass
class Modelled:
    """A configuration in the model."""

    id: str
    versions: list[KnowledgeBase]
    deleted: bool = False

    @property
    def current(self) -> KnowledgeBase:
        return self.versions[-1]


@dataclass
class Model:
    """The configurations in the order of their creation."""

    all: list[Modelled] = field(default_factory=list)

    def present(self) -> list[Modelled]:
        return [each for each in self.all if not each.deleted]

    def find(self, id_: str, *, deleted: bool = False) -> Modelled | None:
        return next((each for each in self.all if each.id == id_ and (deleted or not each.deleted)), None)

    def is_taken(self, name: str, but: str = "") -> bool:
        return any(each.current.name == name and each.id != but for each in self.present())


class RepositoryMachine(RuleBasedStateMachine):
    """Operations on the repository and on the model."""

    run: ClassVar[Callable[[Any], Any]]
    database: ClassVar[Database]

    ids = Bundle("ids")

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.repository = Configurations(self.database, "rags", KnowledgeBase)
        type(self).run(_clear(self.database))

    def call(self, operation: Any) -> tuple[Any, str]:
        """The result of an operation, or the code of its error."""
        try:
            return type(self).run(operation), ""
        except ServiceError as error:
            return None, error.code

    @rule(target=ids, name=NAMES, description=DESCRIPTIONS)
    def create(self, name: str, description: str) -> str:
        body = KnowledgeBase(name=name, description=description)
        taken = self.model.is_taken(name)
        stored, code = self.call(self.repository.create(body))
        assert code == ("name_taken" if taken else "")
        if taken:
            return "no-such-id"
        assert (stored.version, stored.body) == (1, body)
        self.model.all.append(Modelled(stored.id, [body]))
        return str(stored.id)

    @rule(id_=ids, version=st.integers(0, 4), name=NAMES, description=DESCRIPTIONS)
    def update(self, id_: str, version: int, name: str, description: str) -> None:
        body = KnowledgeBase(name=name, description=description)
        known = self.model.find(id_)
        stored, code = self.call(self.repository.update(id_, version, body))
        if known is None:
            assert code == "configuration_not_found"
        elif version != len(known.versions):
            assert code == "version_conflict"
        elif self.model.is_taken(name, but=id_):
            assert code == "name_taken"
        else:
            assert (code, stored.version, stored.body) == ("", version + 1, body)
            known.versions.append(body)

    @rule(target=ids, id_=ids, version=st.integers(0, 4))
    def duplicate(self, id_: str, version: int) -> str:
        known = self.model.find(id_, deleted=version > 0)
        stored, code = self.call(self.repository.duplicate(id_, version))
        if known is None or version > len(known.versions):
            assert code == "configuration_not_found"
            return "no-such-id"
        assert code == ""
        original = known.versions[version - 1] if version else known.current
        assert not self.model.is_taken(stored.body.name)
        assert stored.body.name != original.name
        assert stored.body.description == original.description
        self.model.all.append(Modelled(stored.id, [stored.body]))
        return str(stored.id)

    @rule(id_=ids, version=st.integers(0, 3), permanent=st.booleans())
    def delete(self, id_: str, version: int, permanent: bool) -> None:
        known = self.model.find(id_, deleted=permanent)
        _, code = self.call(self.repository.delete(id_, version, permanent=permanent))
        if known is None:
            assert code == "configuration_not_found"
        elif version not in (0, len(known.versions)):
            assert code == "version_conflict"
        else:
            assert code == ""
            known.deleted = True
            if permanent:
                self.model.all.remove(known)

    @rule(id_=ids, version=st.integers(0, 5), deleted=st.booleans())
    def read(self, id_: str, version: int, deleted: bool) -> None:
        known = self.model.find(id_, deleted=deleted)
        stored, code = self.call(self.repository.read(id_, version, deleted=deleted))
        if known is None or version > len(known.versions):
            assert code == "configuration_not_found"
        else:
            assert stored.body == (known.versions[version - 1] if version else known.current)
            assert (stored.current_version, stored.deleted) == (len(known.versions), known.deleted)

    @rule(text=FILTERS, index=st.integers(0, 2), limit=st.integers(1, 3))
    def descriptors(self, text: str, index: int, limit: int) -> None:
        matching = [
            each
            for each in reversed(self.model.present())
            if text.lower() in each.current.name.lower() or text.lower() in each.current.description.lower()
        ]
        page, _ = self.call(self.repository.descriptors(text, index, limit))
        expected = matching[index * limit : (index + 1) * limit]
        assert [(each.resource, each.name, each.description) for each in page] == [
            (self.repository.resource(each.id, len(each.versions)), each.current.name, each.current.description)
            for each in expected
        ]

    @rule(name=NAMES)
    def find_by_name(self, name: str) -> None:
        found, _ = self.call(self.repository.find_by_name(name))
        expected = [each.id for each in self.model.present() if each.current.name == name]
        assert ([] if found is None else [found.id]) == expected

    @invariant()
    def names_are_unique_and_those_of_the_model(self) -> None:
        names, _ = self.call(self.repository.names())
        assert names == sorted(each.current.name for each in self.model.present())
        assert len(set(names)) == len(names)


async def _clear(database: Database) -> None:
    async with database.session() as session:
        await session.execute(delete(ConfigurationRow))


@pytest.fixture
def open_database(tmp_path: Path) -> Iterator[None]:
    """A database over SQLite, in an event loop of its own."""
    database = Database(make_url(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}"))
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        runner.run(stack.enter_async_context(database.running()))
        RepositoryMachine.run = runner.run
        RepositoryMachine.database = database
        yield
        runner.run(stack.aclose())


def test_any_sequence_of_operations_agrees_with_the_model(open_database: None) -> None:
    run_state_machine_as_test(
        RepositoryMachine,
        settings=settings(
            max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
