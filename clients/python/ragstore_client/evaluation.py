"""Measures a retriever over a file of questions: recall@k, MRR and nDCG@k.

    questions = read_questions("questions.jsonl")
    print(evaluate(questions, await search(source, questions)).table())

`python -m ragstore_client.evaluate FILE --collection NAME` does the same for a collection of a service.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ragstore_client._exceptions import InvalidInput
from ragstore_client._models import Where
from ragstore_client.context._sources import PassageSource

__all__ = ["Evaluation", "Question", "QuestionResult", "evaluate", "ndcg", "read_questions", "recall", "search"]

CUTOFFS = (1, 3, 5, 10)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question of a file, one JSON object per line.

    Attributes:
        text: the question.
        id: its id; its line number when the file has none.
        relevant: the ids of the passages with the information, or their gains by id, such as 1 to 3.
        embedding: its vector, as numbers or as base64 of float32, where no embedder is used.
    """

    text: str
    id: str = ""
    relevant: list[str] | dict[str, float] = []
    embedding: str | list[float] | None = None

    @property
    def gains(self) -> dict[str, float]:
        """The gains of the relevant passages by id; 1 where the file has only ids."""
        return self.relevant if isinstance(self.relevant, dict) else dict.fromkeys(self.relevant, 1.0)


class QuestionResult(msgspec.Struct, frozen=True):
    """The result of one question.

    Attributes:
        id: the question's id.
        rank: the rank of the first relevant passage, from 1; None if none was found.
        recall: recall by cutoff.
        ndcg: nDCG by cutoff.
    """

    id: str
    rank: int | None
    recall: dict[int, float]
    ndcg: dict[int, float]


class Evaluation(msgspec.Struct, frozen=True):
    """The results of all questions.

    Attributes:
        results: the results, in the order of the questions.
    """

    results: list[QuestionResult]
    cutoffs: tuple[int, ...]

    @property
    def mrr(self) -> float:
        """Mean of the reciprocal rank of the first relevant passage; 0 for a question without one."""
        return _mean([1 / result.rank if result.rank else 0.0 for result in self.results])

    def recall(self, cutoff: int) -> float:
        """Mean share of the relevant passages that are among the first ones."""
        return _mean([result.recall[cutoff] for result in self.results])

    def ndcg(self, cutoff: int) -> float:
        """Mean of nDCG."""
        return _mean([result.ndcg[cutoff] for result in self.results])

    def table(self) -> str:
        """The figures as a table in Markdown."""
        rows = [f"| {cutoff} | {self.recall(cutoff):.3f} | {self.ndcg(cutoff):.3f} |" for cutoff in self.cutoffs]
        heading = f"{len(self.results)} questions, MRR {self.mrr:.3f}"
        return "\n".join([heading, "", "| k | recall@k | nDCG@k |", "| --- | --- | --- |", *rows])


def read_questions(path: str | Path) -> list[Question]:
    """Read a file of questions.

    Args:
        path: JSON lines; unknown fields are ignored.

    Returns:
        The questions, each with an id.

    Raises:
        InvalidInput: a line is not a question; the text names the line.
    """
    questions: list[Question] = []
    with Path(path).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                question = msgspec.json.decode(line, type=Question)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise InvalidInput(f"line {number} of the questions: {error}") from None
            questions.append(question if question.id else msgspec.structs.replace(question, id=str(number)))
    return questions


async def search(
    source: PassageSource, questions: Sequence[Question], *, top_k: int = max(CUTOFFS), where: Where | None = None
) -> list[list[str]]:
    """Search for questions, one after the other.

    Args:
        top_k: number of passages.
        where: a filter on metadata.

    Returns:
        The ids of the passages found for each question, nearest first.
    """
    found = [
        await source.search(question.text, top_k, where=where, with_embeddings=False, deadline=None)
        for question in questions
    ]
    return [[passage.id for passage in passages] for passages in found]


def evaluate(
    questions: Sequence[Question], rankings: Sequence[Sequence[str]], *, cutoffs: Sequence[int] = CUTOFFS
) -> Evaluation:
    """Compare what was found with what is relevant.

    Args:
        questions: the questions. One without relevant passages is an error in the file, not a failure to find some.
        rankings: the ids of the passages found for each question, best first. A repeated id counts once.
        cutoffs: numbers of passages to consider.

    Returns:
        The figures.

    Raises:
        InvalidInput: a question has no relevant passage, a gain is not positive, a cutoff is below 1, or the lengths
            differ.
    """
    if len(questions) != len(rankings) or not questions:
        raise InvalidInput("there must be questions, and a ranking for each of them")
    if not cutoffs or min(cutoffs) < 1:
        raise InvalidInput("cutoffs must be at least 1")
    results: list[QuestionResult] = []
    for question, ranking in zip(questions, rankings, strict=True):
        gains = question.gains
        if not gains or not all(gain > 0 and math.isfinite(gain) for gain in gains.values()):
            raise InvalidInput(f"question {question.id!r} needs relevant passages with positive gains")
        unique = list(dict.fromkeys(ranking))
        rank = next((rank for rank, found in enumerate(unique, 1) if found in gains), None)
        results.append(
            QuestionResult(
                question.id,
                rank,
                {cutoff: recall(unique, gains, cutoff) for cutoff in cutoffs},
                {cutoff: ndcg(unique, gains, cutoff) for cutoff in cutoffs},
            )
        )
    return Evaluation(results, tuple(cutoffs))


def recall(ranking: Sequence[str], gains: Mapping[str, float], cutoff: int) -> float:
    """The share of the relevant passages that are among the first ones.

    Args:
        ranking: ids without repetition, best first.
        gains: gains of the relevant passages.
        cutoff: number of passages to consider.
    """
    return sum(found in gains for found in ranking[:cutoff]) / len(gains)


def ndcg(ranking: Sequence[str], gains: Mapping[str, float], cutoff: int) -> float:
    """Normalised discounted cumulative gain: 1 if the most useful passages come first, in order.

    The gain of a passage is divided by the binary logarithm of its rank plus 1 (Järvelin and Kekäläinen, 2002).

    Args:
        ranking: ids without repetition, best first.
        gains: gains of the relevant passages.
        cutoff: number of passages to consider.
    """
    found = _discounted([gains.get(identifier, 0.0) for identifier in ranking[:cutoff]])
    return found / _discounted(sorted(gains.values(), reverse=True)[:cutoff])


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
