"""Runs of question sets whose process ends, over SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest
from sqlalchemy import URL

from ragstore_gateway.api.request_variables import NO_VARIABLES
from ragstore_gateway.claims.leases import Leases
from ragstore_gateway.claims.runs import COMPLETED
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.question_set import ExpectedPassage, QuestionSet, SetQuestion
from ragstore_gateway.configurations.question_sets import QuestionSets
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import QuestionRunEnded, QuestionRunNotFound, QuestionSetRunning
from ragstore_gateway.evaluation.evaluations import Evaluations
from ragstore_gateway.evaluation.runs import WITH_OUTCOMES, QuestionRuns, outcomes_of
from ragstore_gateway.retrieval.question import Question
from ragstore_gateway.retrieval.retriever import BaseQuery, BaseResult, KnowledgeRetriever

EXPECTED = [ExpectedPassage(document_name="a.txt")]
QUESTIONS = [SetQuestion(text="Tea?", passages=EXPECTED)]


@dataclass
class Searches:
    """Stands for the retriever: the searches for texts with a part wait until they are released.

    Attributes:
        left: number of searches that were cancelled.
    """

    error: str = ""
    released: asyncio.Event = field(default_factory=asyncio.Event)
    held_text: str = ""
    left: int = 0

    async def search(self, question: Question, queries: Sequence[BaseQuery], deadline: float) -> list[BaseResult]:
        """The results of searches that find nothing."""
        try:
            if self.held_text in question.text:
                await self.released.wait()
        except asyncio.CancelledError:
            self.left += 1
            raise
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

    async def new_set(self, *texts: str) -> str:
        """The id of a new set, with one question unless others are given."""
        base = await self.bases.create(KnowledgeBase(name=f"tea-{uuid4().hex}"))
        questions = [SetQuestion(text=text, passages=EXPECTED) for text in texts] or QUESTIONS
        return (await self.sets.create(QuestionSet(name="tea", base=base.id, questions=questions))).id

    async def searched(self, set_id: str, count: int) -> None:
        """Wait until the newest run of a set has written that it has searched for a number of questions."""
        async with asyncio.timeout(30):
            while (await self.runs.page(set_id, index=0, limit=1))[0][0].searched != count:  # noqa: ASYNC110  # rows have no event
                await asyncio.sleep(0.01)

    async def idle(self) -> None:
        """Wait until this process executes no run."""
        async with asyncio.timeout(30):
            while self.runs.claimed:  # noqa: ASYNC110  # the set has no event
                await asyncio.sleep(0.01)

    async def state(self, set_id: str) -> tuple[str, str]:
        """The state of the newest run of a set, and its reason."""
        newest = (await self.runs.page(set_id, index=0, limit=1))[0][0]
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
    assert await other.runs.take_over() == 1
    assert await other.state(set_id) == ("interrupted", "lease_expired")
    other.searches.released.set()
    await other.evaluations.start(set_id, NO_VARIABLES)
    assert await other.ended(set_id) == ("completed", "")
    read = await other.runs.read(set_id, run_id=run.id)
    assert (read.state, read.finished_on is not None) == ("interrupted", True)


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


async def test_a_run_writes_its_progress_and_stops_within_the_process_that_cancels_it(database: Database) -> None:
    gateway = Gateway(database, "own")
    set_id = await gateway.new_set("Tea?", "Coffee?", "Held?")
    gateway.searches.held_text = "Held"
    run = await gateway.evaluations.start(set_id, NO_VARIABLES)
    await gateway.searched(set_id, 2)
    await gateway.evaluations.cancel(set_id, run.id)
    assert await gateway.state(set_id) == ("cancelled", "requested")
    await gateway.evaluations.cancel(set_id, run.id)
    await gateway.idle()
    assert gateway.searches.left == 1
    read = await gateway.runs.read(set_id, run_id=run.id, options=WITH_OUTCOMES)
    assert (read.searched, read.figures, outcomes_of(read)) == (2, None, [])
    assert read.finished_on is not None
    gateway.searches.released.set()
    await gateway.evaluations.start(set_id, NO_VARIABLES)
    assert await gateway.ended(set_id) == ("completed", "")


async def test_a_run_stops_when_another_process_cancels_it(database: Database) -> None:
    own, other = Gateway(database, "own"), Gateway(database, "other")
    set_id = await own.new_set()
    run = await own.evaluations.start(set_id, NO_VARIABLES)
    await other.evaluations.cancel(set_id, run.id)
    assert await own.state(set_id) == ("cancelled", "requested")
    await own.idle()
    assert own.searches.left == 1
    assert await other.state(set_id) == ("cancelled", "requested")


async def test_the_run_of_a_set_that_is_deleted_is_cancelled(database: Database) -> None:
    gateway = Gateway(database, "own")
    set_id = await gateway.new_set()
    await gateway.evaluations.start(set_id, NO_VARIABLES)
    await gateway.sets.delete(set_id)
    await gateway.idle()
    assert gateway.searches.left == 1
    assert await gateway.state(set_id) == ("cancelled", "set_deleted")


async def test_a_run_that_has_ended_is_not_cancelled(database: Database) -> None:
    gateway, killed = Gateway(database, "own"), Gateway(database, "killed")
    set_id = await gateway.new_set()
    gateway.searches.released.set()
    run = await gateway.evaluations.start(set_id, NO_VARIABLES)
    assert await gateway.ended(set_id) == ("completed", "")
    lost = await killed.runs.claim(set_id, 1, 1, 1)
    await killed.leases.remove()
    assert await gateway.runs.take_over() == 1
    for run_id in (run.id, lost.id):
        with pytest.raises(QuestionRunEnded):
            await gateway.evaluations.cancel(set_id, run_id)
    with pytest.raises(QuestionRunNotFound):
        await gateway.evaluations.cancel(await gateway.new_set(), run.id)
    assert (await gateway.runs.read(set_id, run_id=run.id)).state == "completed"


async def test_the_newest_100_runs_of_a_set_are_kept(database: Database) -> None:
    gateway = Gateway(database, "own")
    set_id = await gateway.new_set()
    begun: list[str] = []
    for number in range(101):
        begun.append((await gateway.runs.claim(set_id, 1, 1, 1)).id)
        if number % 2:
            await gateway.runs.cancel(set_id, run_id=begun[-1])
        else:
            await gateway.runs.end(begun[-1], COMPLETED, "", {})
        gateway.runs.claimed.clear()
    runs, total = await gateway.runs.page(set_id, index=0, limit=1)
    assert (total, runs[0].id) == (100, begun[-1])
