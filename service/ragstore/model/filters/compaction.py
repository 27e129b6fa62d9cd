"""Makes a filter in Chroma's language shorter: distributed Chroma limits the number of comparisons in one filter.

Only equalities are merged. Two values of one key become one `$in` below `$or`, and one `$nin` below `$and`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from ragstore.model.filters.combinations import combine

Clause: TypeAlias = dict[str, object]

_MERGED: Final = {"$or": ("$eq", "$in"), "$and": ("$ne", "$nin")}
"""For each combination, the comparison with one value, and the comparison with several into which it is merged."""


def compact(where: Clause) -> Clause:
    """Merge the equalities of a filter.

    Args:
        where: a filter in Chroma's language, with an operator in each comparison.

    Returns:
        A filter that selects the same documents, with no more comparisons.
    """
    for operator in _MERGED:
        clauses = where.get(operator)
        if isinstance(clauses, list):
            return combine(operator, _merge(operator, _flattened(operator, clauses)))
    return where


def _flattened(operator: str, clauses: list[Clause]) -> Iterator[Clause]:
    """The clauses of a combination, including the clauses of nested combinations of the same kind."""
    for clause in map(compact, clauses):
        inner = clause.get(operator)
        if isinstance(inner, list):
            yield from inner
        else:
            yield clause


def _merge(operator: str, clauses: Iterable[Clause]) -> list[Clause]:
    one, several = _MERGED[operator]
    values: dict[tuple[str, type], list[object]] = {}
    merged: list[Clause | tuple[str, type]] = []
    for clause in clauses:
        (key, comparison), *others = clause.items()
        operand: object = None
        if not others and isinstance(comparison, dict):
            operand = [comparison[one]] if one in comparison else comparison.get(several)
        if not isinstance(operand, list):
            merged.append(clause)
            continue
        # Chroma takes values of one type in a list, and distinguishes 1 from 1.0 and from true.
        group = (key, type(operand[0]))
        if group not in values:
            values[group] = []
            merged.append(group)
        values[group] += operand
    return [
        _comparison(entry[0], one, several, values[entry]) if isinstance(entry, tuple) else entry for entry in merged
    ]


def _comparison(key: str, one: str, several: str, values: list[object]) -> Clause:
    distinct = list(dict.fromkeys(values))
    return {key: {one: distinct[0]} if len(distinct) == 1 else {several: distinct}}
