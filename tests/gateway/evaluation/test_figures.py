"""The places of expected passages in a ranking, and the comparison of two runs."""

from __future__ import annotations

import pytest

from ragstore_gateway.configurations.question_set import ExpectedPassage, SetQuestion
from ragstore_gateway.engines.engine_collection import Passage
from ragstore_gateway.evaluation.figures import StoredOutcome, compared, covers, measured, ranking


def passage(name: str, start: int, end: int) -> Passage:
    """A passage that was found."""
    metadata: dict[str, str | int | float | bool] = {"document_name": name, "char_start": start, "char_end": end}
    return Passage(id=f"{name}-{start}", text="", relevance=1.0, metadata=metadata)


def expected(start: int | None, end: int | None, name: str = "a") -> ExpectedPassage:
    """An expected passage."""
    return ExpectedPassage(document_name=name, start=start, end=end)


@pytest.mark.parametrize(
    ("start", "end", "is_covered"), [(0, 50, True), (0, 49, False), (51, 200, False), (50, 200, True), (20, 70, True)]
)
def test_a_passage_counts_if_it_covers_half_of_the_expected_span(start: int, end: int, is_covered: bool) -> None:
    assert covers(passage("a", start, end), expected(0, 100)) == is_covered
    assert not covers(passage("b", start, end), expected(0, 100))


def test_each_passage_of_a_document_counts_if_the_expected_one_has_no_span() -> None:
    assert covers(passage("a", 900, 901), expected(None, None))


def test_a_passage_has_a_place_for_each_expected_one_and_each_is_found_once() -> None:
    found = [passage("b", 0, 9), passage("a", 0, 100), passage("a", 50, 100), passage("c", 0, 10)]
    wanted = [expected(0, 50), expected(50, 100), expected(0, 10, "c")]
    assert ranking(wanted, found) == ["passage-0", "0", "1", "passage-2", "2"]


def test_the_figures_are_means_over_the_questions() -> None:
    questions = {
        2: SetQuestion(text="x", passages=[expected(0, 9)]),
        5: SetQuestion(text="y", passages=[expected(0, 9)]),
    }
    figures, outcomes = measured(questions, [["passage-0", "0"], ["passage-0"]])
    assert figures.mrr == 0.25
    assert [each.recall for each in figures.cutoffs] == [0.0, 0.5, 0.5, 0.5]
    assert [(each.question, each.rank, each.recall) for each in outcomes] == [(2, 2, 1.0), (5, None, 0.0)]


def test_a_question_is_compared_with_the_same_question_and_the_same_expected_passages() -> None:
    one, two, three = (SetQuestion(text=text, passages=[expected(0, 9)]) for text in "abc")
    relabelled = SetQuestion(text="c", passages=[expected(5, 9)])
    before = [StoredOutcome(0, 2, 1.0, 0.6), StoredOutcome(1, 1, 1.0, 1.0), StoredOutcome(2, 1, 1.0, 1.0)]
    now = [StoredOutcome(0, 3, 1.0, 0.5), StoredOutcome(1, 1, 1.0, 1.0), StoredOutcome(2, 1, 1.0, 1.0)]
    found = compared(now, [two, one, relabelled], before, [one, two, three])
    assert [(each.change, each.rank_before) for each in found] == [("lost", 1), ("won", 2), ("new", None)]
