"""Hand-made replies with the citations that a reader finds in them, and the score of `check_citations`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ragstore_client.context._citation_report import check_citations
from ragstore_client.context._passages import ContextPassage

ANSWERS = Path(__file__).with_name("answers.jsonl")

CONTEXT = [
    ContextPassage(id="a", text="t", citation="manual.pdf#3", number=1, tokens=1),
    ContextPassage(id="b", text="t", citation="manual.pdf#4", number=2, tokens=1),
    ContextPassage(id="c", text="t", citation="report [final].pdf#1", number=3, tokens=1),
    ContextPassage(
        id="d", text="t", metadata={"url": "https://x.org/a"}, citation="https://x.org/a", number=4, tokens=1
    ),
    ContextPassage(id="e", text="t", citation="Handbook#2", number=5, tokens=1),
]


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reply, and the labels that it cites and invents, one for each occurrence."""

    kind: str
    answer: str
    cites: list[str]
    invents: list[str]


class Score(msgspec.Struct):
    """Counts of right, superfluous and missing citations."""

    right: int = 0
    superfluous: int = 0
    missing: int = 0

    @property
    def precision(self) -> float:
        found = self.right + self.superfluous
        return self.right / found if found else 1.0

    @property
    def recall(self) -> float:
        expected = self.right + self.missing
        return self.right / expected if expected else 1.0


def cases() -> Iterator[Case]:
    """The cases of the file."""
    for line in ANSWERS.read_text().splitlines():
        yield msgspec.json.decode(line, type=Case)


def found_in(case: Case) -> Counter[tuple[str, bool]]:
    """The labels that `check_citations` finds, each with whether it is invented."""
    return Counter((c.label, c.invented) for c in check_citations(case.answer, CONTEXT).citations)


def expected_of(case: Case) -> Counter[tuple[str, bool]]:
    """The labels that a reader finds."""
    return Counter([(label, False) for label in case.cites] + [(label, True) for label in case.invents])


def score() -> dict[str, Score]:
    """The scores by kind of case, and `total`."""
    scores: dict[str, Score] = {}
    for case in cases():
        found, expected = found_in(case), expected_of(case)
        for kind in (case.kind, "total"):
            entry = scores.setdefault(kind, Score())
            entry.right += (found & expected).total()
            entry.superfluous += (found - expected).total()
            entry.missing += (expected - found).total()
    return scores
