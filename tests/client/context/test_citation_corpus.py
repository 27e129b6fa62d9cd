"""Precision and recall of `check_citations` on hand-made replies. docs/context-figures.md publishes them."""

from __future__ import annotations

from tests.client.context.citation_corpus import cases, score


def test_the_file_has_answers_of_every_kind() -> None:
    given = list(cases())
    kinds = {case.kind for case in given}
    assert len(given) >= 60
    assert kinds >= {
        "number",
        "range",
        "list",
        "name",
        "invented",
        "code",
        "link",
        "footnote",
        "year",
        "nested",
        "unicode",
    }


def test_precision_and_recall_are_as_published() -> None:
    total = score()["total"]
    assert (total.right, total.superfluous, total.missing) == (110, 5, 4)


def test_numbers_lists_ranges_and_names_are_never_found_where_there_are_none() -> None:
    scores = score()
    for kind in (
        "number",
        "list",
        "range",
        "name",
        "label",
        "unicode",
        "nested",
        "invented",
        "link",
        "footnote",
        "year",
    ):
        assert scores[kind].superfluous == 0, kind
