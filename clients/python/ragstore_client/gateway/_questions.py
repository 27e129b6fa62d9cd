"""Question sets and their runs, as structs.

A field that is not given is `msgspec.UNSET` and is not sent. Unknown fields of a response are ignored, so that a newer
gateway can send more.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType


class ExpectedPassage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A span of a document that a search is expected to find; the whole document without a span.

    Attributes:
        start: index of its first character in the document's text, in code points.
        end: index after its last character.
    """

    document_name: str
    start: int | UnsetType | None = UNSET
    end: int | UnsetType | None = UNSET


class SetQuestion(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A question of a set.

    Attributes:
        earlier: earlier messages of the user, the oldest one first, if it is a follow-up.
        passages: the expected passages. Runs leave out a question without any.
    """

    text: str
    earlier: list[str] | UnsetType = UNSET
    passages: list[ExpectedPassage] | UnsetType = UNSET


class QuestionSet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Questions to one knowledge base, with the passages that a search is expected to find.

    Attributes:
        name: unique among the sets of its base that are not deleted. A new set needs it, and `base`.
        description: its subject, for people.
        base: id of the knowledge base, which never changes.
    """

    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    base: str | UnsetType = UNSET
    questions: list[SetQuestion] | UnsetType = UNSET


class AcceptedQuestionRun(msgspec.Struct, frozen=True, rename="camel"):
    """A run that has begun."""

    run_id: str


class CutoffFigures(msgspec.Struct, frozen=True):
    """The means over all questions, for the first `k` passages of each search."""

    k: int
    recall: float
    ndcg: float


class RunFigures(msgspec.Struct, frozen=True):
    """The figures of a completed run: the mean reciprocal rank, and recall and nDCG by number of passages."""

    mrr: float
    cutoffs: list[CutoffFigures]


class QuestionOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome of a question in a run.

    Attributes:
        question: its text.
        rank: rank of the first expected passage, from 1; None if none was found.
        recall: recall of the first ten passages.
        ndcg: nDCG of the first ten passages.
        change: `won`, `lost` or `equal`, compared with the completed run before, or `new`.
        rank_before: its rank in that run.
    """

    question: str
    rank: int | None
    recall: float
    ndcg: float
    change: str
    rank_before: int | None = None


class QuestionRun(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run of a question set.

    Attributes:
        status: `running`, `completed`, `failed`, `cancelled` or `interrupted`.
        reason: why it is not completed, such as `timeout`; empty otherwise.
        set_version: the version of the set that it used.
        base_version: the version of the knowledge base that it searched.
        questions: number of questions with expected passages.
        searched: number of these questions that were searched for.
        figures: None unless it is completed.
        compared_with: id of the completed run before; empty without one.
        won: number of questions with a higher nDCG than in that run.
        lost: number of questions with a lower nDCG.
        finished_on: when it ended; empty before.
        outcomes: the outcomes in the order of the set; empty in a list of runs.
    """

    run_id: str
    status: str
    set_version: int
    base_version: int
    questions: int
    started_on: str
    reason: str = ""
    searched: int = 0
    figures: RunFigures | None = None
    compared_with: str = ""
    won: int = 0
    lost: int = 0
    finished_on: str = ""
    outcomes: list[QuestionOutcome] = []

    @property
    def has_ended(self) -> bool:
        """Whether it is not running any more."""
        return self.status != "running"


class QuestionRunList(msgspec.Struct, frozen=True):
    """A page of the runs of a question set, newest first.

    Attributes:
        total: number of runs that are kept.
    """

    runs: list[QuestionRun]
    total: int
