"""`QuestionExecution`: the work of a run of a question set."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec
import structlog

from ragstore.kit.errors import ServiceError
from ragstore_gateway.api.request_variables import RequestVariables
from ragstore_gateway.claims.execution import Execution
from ragstore_gateway.claims.runs import COMPLETED, FAILED, INTERNAL, RunState
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.configurations.question_set import QuestionSet, SetQuestion
from ragstore_gateway.configurations.question_sets import QuestionSets
from ragstore_gateway.errors import ConfigurationNotFound
from ragstore_gateway.evaluation.figures import CUTOFF, compared, measured, ranking
from ragstore_gateway.evaluation.runs import QuestionRuns, outcomes_of
from ragstore_gateway.evaluation.tables import REASON_LENGTH, QuestionRunRow
from ragstore_gateway.retrieval.question import Question
from ragstore_gateway.retrieval.retriever import BaseQuery, KnowledgeRetriever

CONCURRENCY: Final = 4
"""Maximum number of searches of a run in progress."""

RUN_SECONDS: Final = 600.0
"""Time limit of a run."""

REPORT_SECONDS: Final = 1.0
"""How often the progress of a run is written, and whether it was cancelled is read."""

TIMEOUT: Final = "timeout"
BASE_CHANGED: Final = "base_changed"
"""Reasons of runs that are not completed, beside the codes of errors."""

_log = structlog.get_logger(__name__)


class _Failed(Exception):
    """The run cannot be completed; its text is the reason."""


@dataclass(frozen=True, slots=True)
class BaseSearches:
    """Searches of a run.

    Attributes:
        variables: the variables of the request, for the filter of the base.
        seconds: time limit of a search.
    """

    retriever: KnowledgeRetriever
    base: Configuration[KnowledgeBase]
    variables: RequestVariables
    seconds: float

    async def ranking(self, question: SetQuestion) -> list[str]:
        """The places of a search, as `figures.ranking` makes them.

        Raises:
            _Failed: the base was not searched.
            Overloaded: there was no room for the passages in time.
        """
        query = BaseQuery.of(self.base, CUTOFF, self.base.body.min_score, self.variables, chunks_only=True)
        deadline = asyncio.get_running_loop().time() + self.seconds
        (found,) = await self.retriever.search(Question(question.text, question.earlier), [query], deadline)
        if found.error:
            raise _Failed(found.error)
        return ranking(question.passages, found.passages)


class QuestionExecution(Execution[QuestionRunRow]):
    """Executes a run of a version of a question set, over a version of its base.

    Args:
        run: the run, which this process has claimed.
        labelled: the questions with expected passages, by their index in the set.
        bases: the knowledge bases.
    """

    noun: ClassVar[str] = "question run"

    def __init__(
        self,
        run: QuestionRunRow,
        runs: QuestionRuns,
        sets: QuestionSets,
        questions: Configuration[QuestionSet],
        labelled: Mapping[int, SetQuestion],
        bases: Configurations[KnowledgeBase],
        searches: BaseSearches,
    ) -> None:
        super().__init__(run, runs, {"set": questions.id, "base": searches.base.id}, REPORT_SECONDS)
        self._question_runs = runs
        self._sets = sets
        self._questions = questions
        self._labelled = labelled
        self._bases = bases
        self._searches = searches
        self._searched = 0

    @property
    def values(self) -> Mapping[str, Any]:
        """The number of questions that were searched for."""
        return {"searched": self._searched}

    async def work(self) -> tuple[RunState, str]:
        """Search for all questions."""
        try:
            async with asyncio.timeout(RUN_SECONDS):
                await self._measure()
        except TimeoutError:
            return FAILED, TIMEOUT
        except _Failed as failed:
            return FAILED, str(failed)[:REASON_LENGTH]
        except ServiceError as error:
            return FAILED, error.code[:REASON_LENGTH]
        except Exception as error:  # noqa: BLE001  # the run has an end, whatever fails
            _log.error("question run failed", **self._names, error=type(error).__name__)
            return FAILED, INTERNAL
        return COMPLETED, ""

    async def _measure(self) -> None:
        slots = asyncio.Semaphore(CONCURRENCY)

        async def search(question: SetQuestion) -> list[str]:
            async with slots:
                found = await self._searches.ranking(question)
            self._searched += 1
            return found

        searches = [asyncio.create_task(search(each)) for each in self._labelled.values()]
        try:
            figures, outcomes = measured(self._labelled, await asyncio.gather(*searches))
        finally:
            for task in searches:
                task.cancel()
        base = self._searches.base
        try:
            current = await self._bases.read(base.id)
        except ConfigurationNotFound:
            raise _Failed(BASE_CHANGED) from None
        if current.version != base.version:
            raise _Failed(BASE_CHANGED)
        before = await self._question_runs.last_completed(self._questions.id)
        if before is not None:
            earlier = (await self._sets.read(self._questions.id, before.set_version)).body.questions
            outcomes = compared(outcomes, self._questions.body.questions, outcomes_of(before), earlier)
        changes = [each.change for each in outcomes]
        self._result = {
            "figures": msgspec.to_builtins(figures),
            "outcomes": msgspec.to_builtins(outcomes),
            "compared_with": "" if before is None else before.id,
            "won": changes.count("won"),
            "lost": changes.count("lost"),
        }
