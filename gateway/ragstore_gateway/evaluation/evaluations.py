"""`Evaluations`: executes runs of question sets in the background."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import structlog

from ragstore.kit.background import cancel_all
from ragstore.kit.errors import Overloaded, ServiceError
from ragstore_gateway.api.request_variables import RequestVariables
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.question_set import QuestionSet, SetQuestion
from ragstore_gateway.configurations.question_sets import QuestionSets
from ragstore_gateway.errors import ConfigurationNotFound, DatabaseUnavailable, NothingExpected
from ragstore_gateway.evaluation.figures import CUTOFF, compared, measured, ranking
from ragstore_gateway.evaluation.runs import (
    COMPLETED,
    FAILED,
    INTERRUPTED,
    REQUESTED,
    QuestionRuns,
    QuestionRunState,
    RunResult,
    outcomes_of,
)
from ragstore_gateway.evaluation.tables import QuestionRunRow
from ragstore_gateway.retrieval.question import Question
from ragstore_gateway.retrieval.retriever import BaseQuery, KnowledgeRetriever

MAX_RUNS: Final = 2
"""Maximum number of runs that a process executes at the same time."""

CONCURRENCY: Final = 4
"""Maximum number of searches of a run in progress."""

RUN_SECONDS: Final = 600.0
"""Time limit of a run."""

REPORT_SECONDS: Final = 1.0
"""How often the progress of a run is written, and whether it was cancelled is read."""

RECORD_ATTEMPTS: Final = 60
"""How often the end of a run is written, once a second, while the database cannot be used."""

TIMEOUT: Final = "timeout"
BASE_CHANGED: Final = "base_changed"
STOPPED: Final = "gateway_stopped"
INTERNAL: Final = "internal_error"
"""Reasons of runs that are not completed, beside the codes of errors."""

_log = structlog.get_logger(__name__)


class _Failed(Exception):
    """The run cannot be completed; its text is the reason."""


class Evaluations:
    """Runs of question sets. It works while the block of `running` runs.

    Args:
        sets: the question sets.
        bases: the knowledge bases.
        runs: the runs of all sets.
        retriever: searches knowledge bases.
        search_seconds: time limit of a search.
    """

    def __init__(
        self,
        sets: QuestionSets,
        bases: Configurations[KnowledgeBase],
        runs: QuestionRuns,
        retriever: KnowledgeRetriever,
        search_seconds: float,
    ) -> None:
        self.sets = sets
        self.runs = runs
        self._bases = bases
        self._retriever = retriever
        self._search_seconds = search_seconds
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ended: dict[str, str] = {}
        """The runs that were ended by something else than their execution, which stops; the reason of each."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Execute runs. At the end, runs in progress are interrupted."""
        try:
            yield
        finally:
            await cancel_all(self._tasks.values())

    async def start(self, set_id: str, variables: RequestVariables) -> QuestionRunRow:
        """Begin a run of the current version of a set, over the current version of its base.

        Args:
            variables: the variables of the request, for the filter of the base.

        Raises:
            ConfigurationNotFound: there is no such set, or its base is deleted.
            DatabaseUnavailable: the database cannot be used.
            NothingExpected: no question has an expected passage.
            Overloaded: this process executes the maximum number of runs.
            QuestionSetRunning: another run of the set has not ended.
        """
        questions = await self.sets.read(set_id)
        base = await self._bases.read(questions.body.base)
        labelled = {index: each for index, each in enumerate(questions.body.questions) if each.passages}
        if not labelled:
            raise NothingExpected("No question of the set has an expected passage")
        if len(self.runs.executed) >= MAX_RUNS:
            raise Overloaded(f"{MAX_RUNS} runs of question sets are in progress")
        run = await self.runs.claim(set_id, questions.version, base.version, len(labelled))
        # The run has neither the deadline of the request nor its share of the budget of bytes.
        task = asyncio.get_running_loop().create_task(
            self._execute(run.id, questions, labelled, base, variables), context=contextvars.Context()
        )
        self._tasks[run.id] = task
        # A task that is cancelled before its first step runs none of its code.
        task.add_done_callback(lambda _: self._forget(run.id))
        _log.info("question run begins", run=run.id, set=set_id, base=base.id, questions=len(labelled))
        return run

    def _forget(self, run_id: str) -> None:
        """Make room for another run."""
        self.runs.executed.discard(run_id)
        del self._tasks[run_id]
        self._ended.pop(run_id, None)

    async def cancel(self, set_id: str, run_id: str) -> None:
        """Cancel a run; see `QuestionRuns.cancel`.

        Raises:
            ConfigurationNotFound: there is no such set.
        """
        await self.sets.read(set_id)
        await self.runs.cancel(set_id, run_id)
        self._stop(run_id, REQUESTED)

    def _stop(self, run_id: str, reason: str) -> None:
        """Stop the execution of a run that has ended, if this process executes it."""
        task = self._tasks.get(run_id)
        if task is not None and run_id not in self._ended:
            self._ended[run_id] = reason
            task.cancel()

    async def _execute(
        self,
        run_id: str,
        questions: Configuration[QuestionSet],
        labelled: Mapping[int, SetQuestion],
        base: Configuration[KnowledgeBase],
        variables: RequestVariables,
    ) -> None:
        state: QuestionRunState = FAILED
        reason, result = INTERNAL, None
        try:
            async with asyncio.timeout(RUN_SECONDS):
                result = await self._result(run_id, questions, labelled, base, variables)
            state, reason = COMPLETED, ""
        except TimeoutError:
            reason = TIMEOUT
        except _Failed as failed:
            reason = str(failed)
        except ServiceError as error:
            reason = error.code
        except asyncio.CancelledError:
            state, reason = INTERRUPTED, STOPPED
        except Exception as error:  # noqa: BLE001  # the run has an end, whatever fails
            _log.error("question run failed", run=run_id, error=type(error).__name__)
        if run_id in self._ended:
            _log.info("question run stopped", run=run_id, reason=self._ended[run_id])
            return
        await self._record(run_id, state, reason, result)
        _log.info("question run ended", run=run_id, state=state, reason=reason)

    async def _record(self, run_id: str, state: QuestionRunState, reason: str, result: RunResult | None) -> None:
        """Write the end of a run. If the database stays unavailable, the run counts as interrupted."""
        for _ in range(1 if reason == STOPPED else RECORD_ATTEMPTS):
            try:
                await self.runs.end(run_id, state, reason, result)
            except DatabaseUnavailable as error:
                _log.warning("end of question run not written", run=run_id, error=error.cause)
                await asyncio.sleep(1)
            else:
                return

    async def _report(self, run_id: str, searches: Sequence[asyncio.Task[list[str]]]) -> None:
        """Write the progress of a run regularly, and stop the run when it was ended by something else."""
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            try:
                reason = await self.runs.report(run_id, sum(each.done() for each in searches))
            except DatabaseUnavailable as error:
                _log.warning("progress of question run not written", run=run_id, error=error.cause)
                continue
            if reason:
                self._stop(run_id, reason)
                return

    async def _result(
        self,
        run_id: str,
        questions: Configuration[QuestionSet],
        labelled: Mapping[int, SetQuestion],
        base: Configuration[KnowledgeBase],
        variables: RequestVariables,
    ) -> RunResult:
        slots = asyncio.Semaphore(CONCURRENCY)
        searches = [asyncio.create_task(self._ranking(each, base, variables, slots)) for each in labelled.values()]
        report = asyncio.create_task(self._report(run_id, searches))
        try:
            figures, outcomes = measured(labelled, await asyncio.gather(*searches))
        finally:
            for task in (report, *searches):
                task.cancel()
        try:
            current = await self._bases.read(base.id)
        except ConfigurationNotFound:
            raise _Failed(BASE_CHANGED) from None
        if current.version != base.version:
            raise _Failed(BASE_CHANGED)
        before = await self.runs.last_completed(questions.id)
        if before is None:
            return RunResult(figures, outcomes, "")
        earlier = (await self.sets.read(questions.id, before.set_version)).body.questions
        changed = compared(outcomes, questions.body.questions, outcomes_of(before), earlier)
        return RunResult(figures, changed, before.id)

    async def _ranking(
        self,
        question: SetQuestion,
        base: Configuration[KnowledgeBase],
        variables: RequestVariables,
        slots: asyncio.Semaphore,
    ) -> list[str]:
        """The places of a search, as `ranking` makes them.

        Raises:
            _Failed: the base was not searched.
            Overloaded: there was no room for the passages in time.
        """
        async with slots:
            query = BaseQuery.of(base, CUTOFF, base.body.min_score, variables, chunks_only=True)
            deadline = asyncio.get_running_loop().time() + self._search_seconds
            (found,) = await self._retriever.search(Question(question.text, question.earlier), [query], deadline)
        if found.error:
            raise _Failed(found.error)
        return ranking(question.passages, found.passages)
