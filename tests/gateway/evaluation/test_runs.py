"""Runs of question sets whose process ends, over SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import URL

from ragstore_gateway.api.request_variables import NO_VARIABLES
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.question_set import ExpectedPassage, QuestionSet, SetQuestion
from ragstore_gateway.configurations.question_sets import QuestionSets
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import QuestionSetRunning
from ragstore_gateway.evaluation.evaluations import Evaluations
from ragstore_gateway.evaluation.runs import COMPLETED, QuestionRuns
from ragstore_gateway.ingestion.leases import Leases
from ragstore_gateway.retrieval.question import Question
from ragstore_gateway.retrieval.retriever import BaseQuery, BaseResult, KnowledgeRetriever

QUESTIONS = [SetQuestion(text="Tea?", passages=[ExpectedPassage(document_name="a.txt")])]


@dataclass
class Searches:
    """Stands for the retriever: the searches wait until they are released."""

    error: str = ""
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def search(self, question: Question, queries: Sequence[BaseQuery], deadline: float) -> list[BaseResult]:
        """The results of searches that find nothing."""
        await self.released.wait()
        return [BaseResult(query, error=self.error) for query in queries]


class Gateway:
    """The parts of a gateway that runs need, in one process."""

    def __init__(self, database: Database, owner: str) -> None:
        self.bases = Configurations(database, "rags", KnowledgeBase)
        self.sets = QuestionSets(database, self.bases)
        self.leases = Leases(database, owner, 60)
        self.runs = QuestionRuns(database, self.leases)
        self.searches = Searches()
        retriever = cast("KnowledgeRetriever", self.searches)
        self.evaluations = Evaluations(self.sets, self.bases, self.runs, retriever, 10)

    async def new_set(self) -> str:
        """The id of a new set with one question."""
        base = await self.bases.create(KnowledgeBase(name="tea"))
        return (await self.sets.create(QuestionSet(name="tea", base=base.id, questions=QUESTIONS))).id

    async def state(self, set_id: str) -> tuple[str, str]:
        """The state of the newest run of a set, and its reason."""
        newest = (await self.runs.page(set_id, 0, 1))[0][0]
        return newest.state, newest.reason

    async def ended(self, set_id: str) -> tuple[str, str]:
        """The state of the newest run when it has ended."""
        async with asyncio.timeout(30):
            while (found := await self.state(set_id))[0] == "running":  # noqa: ASYNC110  # rows have no event
                await asyncio.sleep(0.01)
        return found


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    """An empty database."""
    opened = Database(URL.create("sqlite+aiosqlite", database=str(tmp_path / "gateway.db")))
    async with opened.running():
        yield opened


async def test_a_run_whose_process_was_killed_is_interrupted_and_the_set_can_be_run_again(database: Database) -> None:
    killed, other = Gateway(database, "killed"), Gateway(database, "other")
    set_id = await killed.new_set()
    run = await killed.runs.claim(set_id, 1, 1, 1)
    assert await other.state(set_id) == ("running", "")
    with pytest.raises(QuestionSetRunning):
        await other.evaluations.start(set_id, NO_VARIABLES)
    await killed.leases.remove()
    assert await other.state(set_id) == ("interrupted", "lease_expired")
    other.searches.released.set()
    await other.evaluations.start(set_id, NO_VARIABLES)
    assert await other.ended(set_id) == ("completed", "")
    record, _ = await other.runs.read(set_id, run.id)
    assert (record.state, record.row.finished_on is not None) == ("interrupted", True)


async def test_a_run_is_interrupted_when_the_gateway_stops(database: Database) -> None:
    gateway = Gateway(database, "own")
    set_id = await gateway.new_set()
    async with gateway.evaluations.running():
        await gateway.evaluations.start(set_id, NO_VARIABLES)
        assert await gateway.state(set_id) == ("running", "")
        await asyncio.sleep(0)
    assert await gateway.state(set_id) == ("interrupted", "gateway_stopped")


async def test_a_run_fails_with_the_code_of_a_search_that_fails(database: Database) -> None:
    gateway = Gateway(database, "own")
    set_id = await gateway.new_set()
    gateway.searches.error = "embedding_timeout"
    gateway.searches.released.set()
    await gateway.evaluations.start(set_id, NO_VARIABLES)
    assert await gateway.ended(set_id) == ("failed", "embedding_timeout")


async def test_a_run_fails_if_another_version_of_the_base_is_written_during_it(database: Database) -> None:
    gateway = Gateway(database, "own")
    set_id = await gateway.new_set()
    await gateway.evaluations.start(set_id, NO_VARIABLES)
    base = (await gateway.sets.read(set_id)).body.base
    await gateway.bases.update(base, 1, KnowledgeBase(name="tea", chunk_size=100))
    gateway.searches.released.set()
    assert await gateway.ended(set_id) == ("failed", "base_changed")


async def test_the_newest_100_runs_of_a_set_are_kept(database: Database) -> None:
    gateway = Gateway(database, "own")
    set_id = await gateway.new_set()
    for _ in range(101):
        run = await gateway.runs.claim(set_id, 1, 1, 1)
        await gateway.runs.end(run.id, COMPLETED, "")
    assert (await gateway.runs.page(set_id, 0, 1))[1] == 100
