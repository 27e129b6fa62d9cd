"""Filters over metadata in Chroma's language."""

from __future__ import annotations

import math
from typing import Final

from ragstore.filters.grammar import Combination
from ragstore.filters.values import MAX_INT, MIN_INT, Scalar
from ragstore.filters.where import CONTAINMENT, Comparison, Where
from ragstore.model.filters import combinations
from ragstore.model.filters.combinations import combine
from ragstore.model.filters.compaction import compact

MAX_EXACT_DIGITS: Final = 15
"""Maximum number of digits of a float that Chroma's server reads exactly from JSON (measured with 1.5.9)."""

_EDGE: Final = 2.0**63
"""The smallest float above the largest integer. Chroma treats the two as equal."""

_BEYOND_EDGE: Final = math.nextafter(_EDGE, math.inf)


def is_exact(where: Where) -> bool:
    """Whether `matches` selects exactly the documents that Chroma selects.

    Chroma's server reads floats with many digits inexactly, in documents and in filters, so that two floats may be
    equal there and different here.
    """
    if isinstance(where, Combination):
        return all(is_exact(clause) for clause in where.clauses)
    operands = where.operand if isinstance(where.operand, tuple) else (where.operand,)
    return all(len(_digits(operand)) <= MAX_EXACT_DIGITS for operand in operands if isinstance(operand, float))


def _digits(number: float) -> str:
    return repr(abs(number)).partition("e")[0].replace(".", "").strip("0")


def to_chroma(where: Where) -> dict[str, object]:
    """Translate a filter to Chroma's language, so that Chroma selects the same documents."""
    return compact(combinations.to_chroma(where, _comparison_to_chroma))


def _comparison_to_chroma(comparison: Comparison) -> dict[str, object]:
    key, operator, operand = comparison.key, comparison.operator, comparison.operand
    if isinstance(operand, tuple):
        return _membership_to_chroma(key, operator, operand)
    if isinstance(operand, (bool, str)):
        return {key: {operator: operand}}
    if operator in CONTAINMENT:
        return _containment_to_chroma(key, operator, operand)
    if isinstance(operand, float):
        return _float_to_chroma(key, operator, operand)
    return {key: {operator: operand}}


def _truncated(number: float) -> int:
    """A float as Chroma compares it with stored integers: truncated."""
    return max(MIN_INT, min(MAX_INT, int(number)))


def _float_to_chroma(key: str, operator: str, number: int | float) -> dict[str, object]:
    """Compensate for truncation: Chroma 1.5.9 treats the integer 1 as equal to 1.5, and as not less than it."""
    plain: dict[str, object] = {key: {operator: number}}
    truncated = _truncated(number)
    if truncated == number:
        return plain
    below = truncated < number
    if operator == "$eq" or operator == ("$gte" if below else "$lte"):
        return combine("$and", [plain, _without_truncated(key, number)])
    if operator == "$ne" or operator == ("$lt" if below else "$gt"):
        return combine("$or", [plain, _truncated_only(key, number)])
    return plain


def _truncated_only(key: str, number: int | float) -> dict[str, object]:
    """Selects the integer that a float is truncated to, and not the float."""
    truncated: dict[str, object] = {key: {"$eq": _truncated(number)}}
    return combine("$and", [truncated, {key: {"$gte": _BEYOND_EDGE}}]) if number == _EDGE else truncated


def _without_truncated(key: str, number: int | float) -> dict[str, object]:
    """Selects everything but the integer that a float is truncated to."""
    others: dict[str, object] = {key: {"$ne": _truncated(number)}}
    return combine("$or", [others, {key: {"$lt": _BEYOND_EDGE}}]) if number == _EDGE else others


def _membership_to_chroma(key: str, operator: str, values: tuple[Scalar, ...]) -> dict[str, object]:
    """One list per type, as Chroma requires, with the truncation of fractions compensated as above."""
    whole: list[object] = []
    fractions: list[float] = []
    clauses: list[dict[str, object]] = []
    selected = operator == "$in"
    for value in values:
        if not isinstance(value, float):
            whole.append(value)
        elif _truncated(value) == value:
            whole.append(_truncated(value))
        elif value == _EDGE:
            clauses = [_float_to_chroma(key, "$eq" if selected else "$ne", value)]
        else:
            fractions.append(value)
    truncated = [_truncated(number) for number in fractions]
    if whole:
        clauses.append({key: {operator: whole}})
    if fractions:
        compensation: dict[str, object] = {key: {"$nin" if selected else "$in": truncated}}
        clauses.append(combine("$and" if selected else "$or", [{key: {operator: fractions}}, compensation]))
    return combine("$or" if selected else "$and", clauses)


def _containment_to_chroma(key: str, operator: str, number: int | float) -> dict[str, object]:
    """Search both lists of integers and lists of floats, which Chroma distinguishes."""
    whole = _truncated(number)
    if whole != number:
        return {key: {operator: number}}
    both: list[dict[str, object]] = [{key: {operator: whole}}, {key: {operator: float(number)}}]
    return combine("$or" if operator == "$contains" else "$and", both)
