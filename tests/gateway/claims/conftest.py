"""Processes that claim work of each kind, in the process of a test, over SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar, Final

import msgspec
import pytest
import sqlalchemy as sa

from ragstore_client import AsyncClient
from ragstore_gateway.claims.claims import Claims
from ragstore_gateway.claims.leases import Leases
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.question_set import ExpectedPassage, QuestionSet, SetQuestion
from ragstore_gateway.configurations.question_sets import QuestionSets
from ragstore_gateway.database.database import Database
from ragstore_gateway.evaluation.runs import QuestionRuns
from ragstore_gateway.ingestion.acceptance import Acceptance, NewContent
from ragstore_gateway.ingestion.documents import Documents
from ragstore_gateway.ingestion.queue import IngestionQueue
from ragstore_gateway.sources.runs import SourceRuns
from tests.support.knowledge import Knowledge

SOURCES: Final = [{"name": "docs", "web": {"startUrl": "https://tea.example/"}}]
GIVEN_BACK: Final = {
    "ingestion": ("processing", ""),
    "source run": ("interrupted", "lease_expired"),
    "question run": ("interrupted", "lease_expired"),
}
"""The state of work that was given back, and its owner or its reason. An ingestion is claimed again."""


class Process:
    """A process that claims the one piece of work that there is.

    Attributes:
        claims: its view of the claims.
        interrupted: set when its work is interrupted.
    """

    def __init__(self, work: Work, owner: str, lease_seconds: float) -> None:
        self.work = work
        self.interrupted = asyncio.Event()
        self.leases = Leases(work.knowledge.database, owner, lease_seconds)
        self.claims = work.claims(self.leases)
        self.leases.add(self.claims, self._interrupt)

    async def claim(self) -> None:
        """Claim the work, with a lease."""
        await self.leases.hold()
        await self.work.claim(self.claims)
        assert len(self.claims.claimed) == 1

    async def _interrupt(self) -> None:
        self.claims.claimed.clear()
        self.interrupted.set()


class Work:
    """Work of one kind, and nothing that works on it.

    Args:
        kind: `ingestion`, `source run` or `question run`.
    """

    _ROWS: ClassVar[dict[str, str]] = {"ingestion": "owner", "source run": "reason", "question run": "reason"}

    def __init__(self, kind: str, knowledge: Knowledge, base_id: str, set_id: str) -> None:
        self.kind = kind
        self.knowledge = knowledge
        self._base_id = base_id
        self._set_id = set_id

    def process(self, owner: str, lease_seconds: float = 600.0) -> Process:
        """A process."""
        return Process(self, owner, lease_seconds)

    def claims(self, leases: Leases) -> Claims[Any]:
        """The claims as a process sees them."""
        database = self.knowledge.database
        if self.kind == "ingestion":
            return IngestionQueue(database, self.knowledge.collections, leases)
        return SourceRuns(database, leases) if self.kind == "source run" else QuestionRuns(database, leases)

    async def claim(self, claims: Claims[Any]) -> None:
        """Claim the work. An ingestion is continued if it was given back."""
        if isinstance(claims, IngestionQueue):
            if not await claims.claim(self._base_id):
                await claims.claim(self._base_id, interrupted=True)
        elif isinstance(claims, SourceRuns):
            await claims.claim(self._base_id, 1, "docs")
        elif isinstance(claims, QuestionRuns):
            await claims.claim(self._set_id, 1, 1, 1)

    async def state(self) -> tuple[str, str]:
        """The state of the work, and its owner or its reason."""
        table = {"ingestion": "ingestion", "source run": "source_run", "question run": "question_run"}[self.kind]
        query = sa.text(f"SELECT state, {self._ROWS[self.kind]} FROM {table}")  # names of this file
        async with self.knowledge.database.reading() as session:
            state, other = (await session.execute(query)).one()
        return state, other

    async def until_given_back(self) -> None:
        """Wait until no process works on it."""
        while await self.state() != GIVEN_BACK[self.kind]:  # noqa: ASYNC110  # rows have no event
            await asyncio.sleep(0.01)


@pytest.fixture(params=list(GIVEN_BACK))
async def work(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[Work]:
    """Work of each kind that no process has claimed."""
    database = Database(sa.make_url(database_url))
    async with database.running(), AsyncClient("http://127.0.0.1:9") as store, asyncio.timeout(30):
        knowledge = Knowledge(database, store)
        base = await knowledge.bases.create(msgspec.convert({"name": "tea", "sources": SOURCES}, KnowledgeBase))
        questions = [SetQuestion(text="Tea?", passages=[ExpectedPassage(document_name="a.txt")])]
        body = QuestionSet(name="tea", base=base.id, questions=questions)
        set_id = (await QuestionSets(database, knowledge.bases).create(body)).id
        await Documents(database, Acceptance(10, 1000)).accept(base.id, NewContent("doc", "text/plain", b"tea", ""))
        yield Work(request.param, knowledge, base.id, set_id)
