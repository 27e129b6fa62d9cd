"""`QuestionRuns`: the runs of all question sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import undefer

from ragstore.kit.errors import Overloaded
from ragstore_gateway.claims.leases import Leases
from ragstore_gateway.claims.runs import COMPLETED, Runs
from ragstore_gateway.configurations.configuration import Configuration, ConfigurationListener
from ragstore_gateway.configurations.question_set import QuestionSet
from ragstore_gateway.configurations.tables import ConfigurationRow
from ragstore_gateway.database.database import Database
from ragstore_gateway.errors import ConfigurationNotFound, QuestionRunEnded, QuestionRunNotFound, QuestionSetRunning
from ragstore_gateway.evaluation.figures import StoredOutcome
from ragstore_gateway.evaluation.tables import QuestionRunRow

MAX_RUNS: Final = 2
"""Maximum number of runs that a process executes at the same time."""

SET_DELETED: Final = "set_deleted"
"""The reason of a run whose set was deleted."""

WITH_OUTCOMES: Final = (undefer(QuestionRunRow.outcomes),)
"""The option to read runs with their outcomes."""


class QuestionRuns(Runs[QuestionRunRow], ConfigurationListener[QuestionSet]):
    """The runs of all question sets. A subject is a set.

    Args:
        leases: the lease of this process, which something else renews.
    """

    def __init__(self, database: Database, leases: Leases) -> None:
        super().__init__(database, leases, QuestionRunRow, ("set_id",))

    async def claim(self, set_id: str, set_version: int, base_version: int, questions: int) -> QuestionRunRow:
        """Begin a run, which belongs to this process.

        Args:
            set_version: the version of the set.
            base_version: the version of the knowledge base.
            questions: the number of questions with expected passages.

        Raises:
            ConfigurationNotFound: the set is deleted.
            DatabaseUnavailable: the database cannot be used.
            Overloaded: this process executes the maximum number of runs.
            QuestionSetRunning: another run of the set has not ended.
        """
        if len(self.claimed) + len(self._in_flight) >= MAX_RUNS:
            raise Overloaded(f"{MAX_RUNS} runs of question sets are in progress")
        async with self.claiming() as (session, claimed):
            own = sa.select(ConfigurationRow.deleted).where(ConfigurationRow.id == set_id)
            if await session.scalar(own.with_for_update(key_share=True)) is not False:
                raise ConfigurationNotFound(f"There is no question set {set_id}")
            run = await self.begin(
                session,
                set_id,
                set_version=set_version,
                base_version=base_version,
                questions=questions,
                searched=0,
                figures=None,
                outcomes=[],
                compared_with="",
                won=0,
                lost=0,
            )
            claimed.append(run.id)
        return run

    async def deleted(self, session: AsyncSession, before: Configuration[QuestionSet], *, permanent: bool) -> None:
        """Cancel the run of a set that is deleted."""
        await self.end_all(session, SET_DELETED, QuestionRunRow.set_id == before.id)

    async def last_completed(self, set_id: str) -> QuestionRunRow | None:
        """The newest completed run of a set, with its outcomes; None without one."""
        query = sa.select(QuestionRunRow).where(QuestionRunRow.set_id == set_id, QuestionRunRow.state == COMPLETED)
        async with self._database.reading() as session:
            found: QuestionRunRow | None = await session.scalar(
                query.order_by(*self._newest).limit(1).options(*WITH_OUTCOMES)
            )
        return found

    def _conflict(self, run: QuestionRunRow) -> QuestionSetRunning:
        return QuestionSetRunning(f"The run {run.id} of the question set {run.set_id} has not ended")

    def _missing(self, subject: Sequence[str], run_id: str) -> QuestionRunNotFound:
        return QuestionRunNotFound(f"The question set {subject[0]} has no run {run_id[:100]!r}")

    def _has_ended(self, run_id: str) -> QuestionRunEnded:
        return QuestionRunEnded(f"The run {run_id} has ended already")


def outcomes_of(row: QuestionRunRow) -> list[StoredOutcome]:
    """The outcomes of a run that was read with them."""
    return msgspec.convert(row.outcomes, list[StoredOutcome])
