"""`$and` and `$or` of both filter languages, as Chroma takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from ragstore.filters.grammar import Combination, Filter

MAX_SIBLINGS: Final = 100
"""Clauses in one `$and` or `$or` that Chroma receives. More are nested in groups, or SQLite's tree becomes too deep."""

C = TypeVar("C")
"""A language's comparison."""


def to_chroma(parsed: Filter[C], comparison: Callable[[C], dict[str, object]]) -> dict[str, object]:
    """Translate a filter to Chroma's language.

    Args:
        parsed: the filter.
        comparison: translates one comparison.

    Returns:
        A filter with which Chroma selects the same documents.
    """
    if isinstance(parsed, Combination):
        return combine(parsed.operator, [to_chroma(clause, comparison) for clause in parsed.clauses])
    return comparison(parsed)


def combine(operator: str, clauses: list[dict[str, object]]) -> dict[str, object]:
    """Combine clauses for Chroma, which requires at least two and fails with too many siblings.

    Args:
        operator: `$and` or `$or`.
        clauses: one or more clauses in Chroma's language.
    """
    while len(clauses) > MAX_SIBLINGS:
        starts = range(0, len(clauses), MAX_SIBLINGS)
        clauses = [combine(operator, clauses[start : start + MAX_SIBLINGS]) for start in starts]
    return clauses[0] if len(clauses) == 1 else {operator: clauses}
