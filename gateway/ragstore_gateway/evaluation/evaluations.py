"""`Evaluations`: executes runs of question sets in the background."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import Context

import structlog

from ragstore_gateway.api.request_variables import RequestVariables
from ragstore_gateway.claims.execution import Executions
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.question_sets import QuestionSets
from ragstore_gateway.errors import NothingExpected
from ragstore_gateway.evaluation.execution import BaseSearches, QuestionExecution
from ragstore_gateway.evaluation.runs import QuestionRuns
from ragstore_gateway.evaluation.tables import QuestionRunRow
from ragstore_gateway.retrieval.retriever import KnowledgeRetriever

_log = structlog.get_logger(__name__)


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
        self._executions = Executions(runs)
        sets.add_listener(runs)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Execute runs. At the end, runs in progress are interrupted."""
        try:
            yield
        finally:
            await self._executions.stop()

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
        run = await self.runs.claim(set_id, questions.version, base.version, len(labelled))
        searches = BaseSearches(self._retriever, base, variables, self._search_seconds)
        # The run has neither the deadline of the request nor its share of the budget of bytes.
        self._executions.start(
            QuestionExecution(run, self.runs, self.sets, questions, labelled, self._bases, searches), Context()
        )
        _log.info("question run begins", run=run.id, set=set_id, base=base.id, questions=len(labelled))
        return run

    async def cancel(self, set_id: str, run_id: str) -> None:
        """Cancel a run; see `Runs.cancel`.

        Raises:
            ConfigurationNotFound: there is no such set.
        """
        await self.sets.read(set_id)
        await self.runs.cancel(set_id, run_id=run_id)
        self._executions.lose(run_id)
