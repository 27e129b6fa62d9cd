"""An independent oracle of the `where` language: plain Python over the JSON of a filter.

It shares no code with the service. Tests compare the documents that the service and the oracle select.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Json: TypeAlias = dict[str, object]
Scalar: TypeAlias = str | int | float | bool
Value: TypeAlias = str | int | float | bool | list[Scalar]


def selects(where: Mapping[str, object], metadata: Mapping[str, Value]) -> bool:
    """Whether a filter selects a document with this metadata."""
    return all(_holds(key, nested, metadata) for key, nested in where.items())


def _holds(key: str, nested: object, metadata: Mapping[str, Value]) -> bool:
    if key == "$and":
        return all(selects(clause, metadata) for clause in _filters(nested))
    if key == "$or":
        return any(selects(clause, metadata) for clause in _filters(nested))
    if isinstance(nested, dict):
        return all(_compares(metadata.get(key), operator, operand) for operator, operand in nested.items())
    return _equals(metadata.get(key), nested)


def _filters(nested: object) -> list[Mapping[str, object]]:
    assert isinstance(nested, list)
    return nested


def _compares(value: Value | None, operator: str, operand: object) -> bool:
    match operator:
        case "$eq":
            return _equals(value, operand)
        case "$ne":
            return not _equals(value, operand)
        case "$in":
            return _is_among(value, operand)
        case "$nin":
            return not _is_among(value, operand)
        case "$contains":
            return isinstance(value, list) and any(_equals(item, operand) for item in value)
        case "$not_contains":
            return not (isinstance(value, list) and any(_equals(item, operand) for item in value))
    return _is_ordered(value, operator, operand)


def _is_among(value: Value | None, operand: object) -> bool:
    assert isinstance(operand, list)
    return any(_equals(value, item) for item in operand)


def _equals(value: Value | None, operand: object) -> bool:
    if _is_number(value) and _is_number(operand):
        number, other = _as_compared(value, operand)
        return number == other
    return type(value) is type(operand) and not isinstance(value, list) and value == operand


def _is_ordered(value: Value | None, operator: str, operand: object) -> bool:
    if not _is_number(value):
        return False
    number, other = _as_compared(value, operand)
    match operator:
        case "$gt":
            return number > other
        case "$gte":
            return number >= other
        case "$lt":
            return number < other
        case "$lte":
            return number <= other
    raise AssertionError(f"no operator: {operator}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _as_compared(value: object, operand: object) -> tuple[int | float, int | float]:
    """The documented limit: with a stored float, an integer of a filter is compared as a double."""
    assert isinstance(value, (int, float))
    assert isinstance(operand, (int, float))
    return (value, float(operand)) if isinstance(value, float) else (value, operand)
