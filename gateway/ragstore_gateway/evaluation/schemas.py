"""The bodies of the routes for runs of question sets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, convert

from ragstore_gateway.claims.runs import COMPLETED
from ragstore_gateway.configurations.question_set import SetQuestion
from ragstore_gateway.evaluation.figures import QuestionOutcome, RunFigures, StoredOutcome
from ragstore_gateway.evaluation.tables import QuestionRunRow


class AcceptedQuestionRun(Struct, frozen=True, rename="camel"):
    """A run that has begun."""

    run_id: Annotated[str, Meta(description="Id of the run.")]
    status: Literal["running"] = "running"


class QuestionRun(Struct, frozen=True, rename="camel", kw_only=True):
    """A run of a question set."""

    run_id: Annotated[str, Meta(description="Id of the run.")]
    status: Annotated[
        Literal["running", "completed", "failed", "cancelled", "interrupted"],
        Meta(
            description="`failed`: a search failed, or the time limit was reached. `cancelled`: a caller cancelled it, "
            "or the set was deleted. `interrupted`: the process that executed it ended. Only a completed run has "
            "figures."
        ),
    ]
    reason: Annotated[
        str, Meta(description="Why it is not completed, such as `timeout`; empty otherwise.", examples=["timeout"])
    ]
    set_version: Annotated[int, Meta(ge=1, description="The version of the set that it used.")]
    base_version: Annotated[int, Meta(ge=1, description="The version of the knowledge base that it searched.")]
    questions: Annotated[int, Meta(ge=1, description="Number of questions with expected passages.")]
    searched: Annotated[
        int, Meta(ge=0, description="Number of these questions that were searched for, written once a second.")
    ]
    figures: RunFigures | UnsetType = UNSET
    compared_with: Annotated[str | UnsetType, Meta(description="Id of the completed run before.")] = UNSET
    won: Annotated[int, Meta(ge=0, description="Number of questions with a higher nDCG than in that run.")]
    lost: Annotated[int, Meta(ge=0, description="Number of questions with a lower nDCG.")]
    started_on: datetime
    finished_on: Annotated[datetime | UnsetType, Meta(description="When it ended.")] = UNSET


class QuestionRunOutcomes(QuestionRun, frozen=True, rename="camel", kw_only=True):
    """A run of a question set, with the outcome of each question."""

    outcomes: Annotated[list[QuestionOutcome], Meta(description="The outcomes, in the order of the set.")]


class QuestionRunList(Struct, frozen=True):
    """A page of the runs of a question set, newest first."""

    runs: list[QuestionRun]
    total: Annotated[int, Meta(ge=0, description="Number of runs that are kept.")]


def run_of(row: QuestionRunRow) -> QuestionRun:
    """A run of a list."""
    return QuestionRun(**_fields(row))


def run_with_outcomes(
    row: QuestionRunRow, outcomes: Sequence[StoredOutcome], questions: Sequence[SetQuestion]
) -> QuestionRunOutcomes:
    """A run with the outcomes of its questions.

    Args:
        questions: all questions of the version of the set.
    """
    return QuestionRunOutcomes(
        outcomes=[
            QuestionOutcome(
                questions[each.question].text,
                each.rank,
                each.recall,
                each.ndcg,
                each.change,
                UNSET if each.change == "new" else each.rank_before,
            )
            for each in outcomes
        ],
        **_fields(row),
    )


def _fields(row: QuestionRunRow) -> dict[str, Any]:
    return {
        "run_id": row.id,
        "status": row.state,
        "reason": row.reason,
        "set_version": row.set_version,
        "base_version": row.base_version,
        "questions": row.questions,
        # A run that was completed before progress was written has searched for all.
        "searched": row.questions if row.state == COMPLETED else row.searched,
        "figures": UNSET if row.figures is None else convert(row.figures, RunFigures),
        "compared_with": row.compared_with or UNSET,
        "won": row.won,
        "lost": row.lost,
        "started_on": row.started_on,
        "finished_on": row.finished_on or UNSET,
    }
