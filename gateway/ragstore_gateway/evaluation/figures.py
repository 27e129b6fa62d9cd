"""The figures of a run: which places of a ranking have expected passages, and the comparison with the run before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore_client.evaluation import CUTOFFS, Question, evaluate
from ragstore_gateway.configurations.question_set import ExpectedPassage, SetQuestion
from ragstore_gateway.engines.engine_collection import DOCUMENT_NAME_KEY, Passage

CUTOFF: Final = max(CUTOFFS)
"""Number of passages that are searched for."""

EQUAL: Final = 1e-9
"""Largest difference of two figures that are equal."""

Change: TypeAlias = Literal["won", "lost", "equal", "new"]

_CHANGE: Final = Meta(
    description="Whether its nDCG is higher (`won`), lower (`lost`) or `equal` compared with the completed run before; "
    "`new` if that had no question with the same text and expected passages."
)


class CutoffFigures(Struct, frozen=True):
    """The means over all questions, for the first passages of each search."""

    k: Annotated[int, Meta(ge=1, description="Number of passages.")]
    recall: Annotated[float, Meta(ge=0, le=1, description="Share of the expected passages that are among them.")]
    ndcg: Annotated[float, Meta(ge=0, le=1, description="Normalised discounted cumulative gain.")]


class RunFigures(Struct, frozen=True):
    """The figures of a completed run."""

    mrr: Annotated[float, Meta(ge=0, le=1, description="Mean reciprocal rank of the first expected passage.")]
    cutoffs: list[CutoffFigures]


class StoredOutcome(Struct, frozen=True):
    """The outcome of a question.

    Attributes:
        question: its index in the version of the set.
    """

    question: int
    rank: int | None
    recall: float
    ndcg: float
    change: Change = "new"
    rank_before: int | None = None


class QuestionOutcome(Struct, frozen=True, rename="camel"):
    """The outcome of a question in a run."""

    question: Annotated[str, Meta(description="Its text.")]
    rank: Annotated[int | None, Meta(description="Rank of the first expected passage, from 1; null if none was found.")]
    recall: Annotated[float, Meta(ge=0, le=1, description=f"Recall of the first {CUTOFF} passages.")]
    ndcg: Annotated[float, Meta(ge=0, le=1, description=f"nDCG of the first {CUTOFF} passages.")]
    change: Annotated[Change, _CHANGE]
    rank_before: Annotated[
        int | UnsetType | None, Meta(description="Its rank in that run; null if none was found there.")
    ] = UNSET


def ranking(expected: Sequence[ExpectedPassage], passages: Sequence[Passage]) -> list[str]:
    """The places of a search as ids for the metrics: the index of the expected passage that a place has, if any.

    A passage that covers several expected ones has a place for each, so that large chunks have no advantage. A passage
    that covers one that an earlier passage has covered is a place without gain.
    """
    missing = dict(enumerate(expected))
    places: list[str] = []
    for number, passage in enumerate(passages):
        covered = [index for index, each in missing.items() if covers(passage, each)]
        places += [str(index) for index in covered] or [f"passage-{number}"]
        for index in covered:
            del missing[index]
    return places


def covers(passage: Passage, expected: ExpectedPassage) -> bool:
    """Whether a passage has at least half of an expected one, or is of its document if that has no span."""
    metadata = passage.metadata
    if metadata.get(DOCUMENT_NAME_KEY) != expected.document_name:
        return False
    if expected.start is None or expected.end is None:
        return True
    start, end = metadata.get("char_start"), metadata.get("char_end")
    if not isinstance(start, int) or not isinstance(end, int):
        return False
    return 2 * (min(end, expected.end) - max(start, expected.start)) >= expected.end - expected.start


def measured(
    questions: Mapping[int, SetQuestion], rankings: Sequence[Sequence[str]]
) -> tuple[RunFigures, list[StoredOutcome]]:
    """The figures of a run, and the outcome of each question.

    Args:
        questions: the questions with expected passages, by their index in the set.
        rankings: the ranking of each.
    """
    judged = [
        Question(text=each.text, id=str(index), relevant=[str(number) for number in range(len(each.passages))])
        for index, each in questions.items()
    ]
    result = evaluate(judged, rankings)
    cutoffs = [CutoffFigures(k, _rounded(result.recall(k)), _rounded(result.ndcg(k))) for k in result.cutoffs]
    outcomes = [
        StoredOutcome(int(each.id), each.rank, _rounded(each.recall[CUTOFF]), _rounded(each.ndcg[CUTOFF]))
        for each in result.results
    ]
    return RunFigures(_rounded(result.mrr), cutoffs), outcomes


def compared(
    outcomes: Sequence[StoredOutcome],
    questions: Sequence[SetQuestion],
    before: Sequence[StoredOutcome],
    questions_before: Sequence[SetQuestion],
) -> list[StoredOutcome]:
    """The outcomes of a run, each compared with the same question of the run before.

    Args:
        questions: all questions of the version of the set.
        before: the outcomes of the run before.
        questions_before: all questions of the version of the set that it used.
    """
    known = {msgspec.json.encode(questions_before[each.question]): each for each in before}
    found: list[StoredOutcome] = []
    for each in outcomes:
        other = known.get(msgspec.json.encode(questions[each.question]))
        if other is None:
            found.append(each)
            continue
        difference = each.ndcg - other.ndcg
        change: Change = "equal" if abs(difference) < EQUAL else "won" if difference > 0 else "lost"
        found.append(msgspec.structs.replace(each, change=change, rank_before=other.rank))
    return found


def _rounded(value: float) -> float:
    return min(1.0, round(value, 6))
