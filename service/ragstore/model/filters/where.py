"""The `where` language: which documents a filter over metadata selects.

It is Chroma's language and what people expect of it. A filter is a JSON object:

- `{"a": 1}` and `{"a": {"$eq": 1}}`: the value under `a` equals 1. Numbers compare as numbers: 1 equals 1.0.
  A boolean is no number, and a list equals nothing.
- `$ne`: not `$eq`; so it also selects documents without the key.
- `$gt`, `$gte`, `$lt`, `$lte`: the value is a number and compares so.
- `$in`: equals one of a list of values of one type; `$nin`: not `$in`.
- `$contains`: the value is a list that holds this; `$not_contains`: not `$contains`.
- several fields, or several operators on one field: all of them.
- `$and`, `$or`: lists of filters. `{}` selects everything.

`parse` reads a filter, `to_chroma` writes it so that Chroma's answer is exactly that, `matches` evaluates it here.

One limit: to compare an integer of a filter with a stored float, Chroma makes it a double, which rounds beyond 2**53.
`matches` does the same. A float of a filter is compared with stored integers exactly.
"""

from __future__ import annotations

import math
import operator as compare
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from ragstore.model.filters import grammar
from ragstore.model.filters.grammar import Combination, Complaint, Filter, Reader, joined
from ragstore.model.metadata import MAX_INT, MIN_INT, MetadataValue, Scalar, is_reserved

Operand: TypeAlias = Scalar | tuple[Scalar, ...]

EQUALITY: Final = ("$eq", "$ne")
ORDER: Final = ("$gt", "$gte", "$lt", "$lte")
MEMBERSHIP: Final = ("$in", "$nin")
CONTAINMENT: Final = ("$contains", "$not_contains")
OPERATORS: Final = (*EQUALITY, *ORDER, *MEMBERSHIP, *CONTAINMENT)

_ORDERS: Final[dict[str, Callable[[float, float], bool]]] = {
    "$gt": compare.gt,
    "$gte": compare.ge,
    "$lt": compare.lt,
    "$lte": compare.le,
}
_COMPLAINT: Final = Complaint("where")

_EDGE: Final = 2.0**63
"""The float next above the largest integer. Chroma takes the two for equal."""

_BEYOND_EDGE: Final = math.nextafter(_EDGE, math.inf)


class Comparison(msgspec.Struct, frozen=True):
    """One operator on one key.

    Attributes:
        key: the metadata key.
        operator: one of `OPERATORS`.
        operand: a scalar; for `$in` and `$nin` a tuple of them.
    """

    key: str
    operator: str
    operand: Operand


Where: TypeAlias = Filter[Comparison]


def parse_text(text: str) -> Where | None:
    """Read a filter given as JSON text; see `Reader.read_text`."""
    return _WhereReader(_COMPLAINT).read_text(text)


def parse(value: object) -> Where | None:
    """Read a filter given as a JSON value; see `Reader.read`."""
    return _WhereReader(_COMPLAINT).read(value)


class _WhereReader(Reader[Comparison]):
    def comparisons(self, key: str, value: object, path: str) -> list[Comparison]:
        if key.startswith("$"):
            raise self.complaint.about(f"unknown operator '{key}'", path)
        if is_reserved(key):
            raise self.complaint.about("a key must not be empty or begin with 'chroma:' or '#'", path)
        if not isinstance(value, dict):
            return [Comparison(key, "$eq", self._scalar(value, path))]
        if not value:
            raise self.complaint.about("an object of operators must not be empty", path)
        return [
            Comparison(key, operator, self._operand(operator, operand, f"{path}.{operator}"))
            for operator, operand in value.items()
        ]

    def _operand(self, operator: str, value: object, path: str) -> Operand:
        if operator not in OPERATORS:
            raise self.complaint.about(f"unknown operator '{operator}'", path)
        if operator in MEMBERSHIP:
            return self._set(operator, value, path)
        operand = self._scalar(value, path)
        if operator in ORDER and (isinstance(operand, (bool, str))):
            raise self.complaint.about(f"'{operator}' takes a number", path)
        return operand

    def _set(self, operator: str, value: object, path: str) -> tuple[Scalar, ...]:
        if not isinstance(value, list) or not value:
            raise self.complaint.about(f"'{operator}' takes a non-empty list", path)
        self.count_values(len(value) + sum(isinstance(item, float) for item in value))
        values = tuple(self._scalar(item, f"{path}[{place}]") for place, item in enumerate(value))
        if len({_kind(item) for item in values}) > 1:
            raise self.complaint.about(f"'{operator}' takes values of one type", path)
        return values

    def _scalar(self, value: object, path: str) -> Scalar:
        if isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            if not MIN_INT <= value <= MAX_INT:
                raise self.complaint.about("an integer must fit in 64 bits", path)
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise self.complaint.about("a number must be finite", path)
            return value
        raise self.complaint.about("a value must be a string, a number or a boolean", path)


def _kind(value: Scalar) -> type:
    """The type that a value counts as; all numbers count as one."""
    return float if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value)


def matches(where: Where | None, metadata: Mapping[str, MetadataValue]) -> bool:
    """Evaluate a filter.

    Args:
        where: the filter; None selects everything.
        metadata: a document's metadata.

    Returns:
        Whether the filter selects the document.
    """
    match where:
        case None:
            return True
        case Combination("$and", clauses):
            return all(matches(clause, metadata) for clause in clauses)
        case Combination(_, clauses):
            return any(matches(clause, metadata) for clause in clauses)
        case Comparison(key, operator, operand):
            return _holds(operator, metadata.get(key), operand)


def _holds(operator: str, value: MetadataValue | None, operand: Operand) -> bool:
    if isinstance(operand, tuple):
        found = any(_equal(value, item) for item in operand)
        return found if operator == "$in" else not found
    if operator in EQUALITY:
        return _equal(value, operand) == (operator == "$eq")
    if operator in CONTAINMENT:
        held = isinstance(value, list) and any(_equal(item, operand) for item in value)
        return held == (operator == "$contains")
    if value is None or isinstance(value, (bool, str, list)) or isinstance(operand, (bool, str)):
        return False
    return _ORDERS[operator](*_comparable(value, operand))


def _equal(value: MetadataValue | None, operand: Scalar) -> bool:
    if value is None or isinstance(value, list) or _kind(value) is not _kind(operand):
        return False
    if isinstance(value, (bool, str)) or isinstance(operand, (bool, str)):
        return value == operand
    number, other = _comparable(value, operand)
    return number == other


def _comparable(value: int | float, operand: int | float) -> tuple[int | float, int | float]:
    """Chroma compares a stored float with a whole number as doubles; beyond 2**53 that rounds."""
    return (value, float(operand)) if isinstance(value, float) else (value, operand)


def to_chroma(where: Where) -> dict[str, object]:
    """Write a filter for Chroma.

    Args:
        where: the filter.

    Returns:
        A filter of Chroma's own language that selects the same documents.
    """
    return grammar.to_chroma(where, _comparison_to_chroma)


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
    """What Chroma makes of a float to compare it with stored integers: the fraction is cut off."""
    return max(MIN_INT, min(MAX_INT, int(number)))


def _float_to_chroma(key: str, operator: str, number: int | float) -> dict[str, object]:
    """Undo the cut: Chroma 1.5.9 takes the integer 1 for equal to 1.5, and for no less than it."""
    plain: dict[str, object] = {key: {operator: number}}
    cut = _truncated(number)
    if cut == number:
        return plain
    below = cut < number
    if operator == "$eq" or operator == ("$gte" if below else "$lte"):
        return joined("$and", [plain, _without_cut(key, number)])
    if operator == "$ne" or operator == ("$lt" if below else "$gt"):
        return joined("$or", [plain, _cut_alone(key, number)])
    return plain


def _cut_alone(key: str, number: int | float) -> dict[str, object]:
    """Selects the integer that a float is cut to, and not the float."""
    cut: dict[str, object] = {key: {"$eq": _truncated(number)}}
    return joined("$and", [cut, {key: {"$gte": _BEYOND_EDGE}}]) if number == _EDGE else cut


def _without_cut(key: str, number: int | float) -> dict[str, object]:
    """Selects all but the integer that a float is cut to."""
    others: dict[str, object] = {key: {"$ne": _truncated(number)}}
    return joined("$or", [others, {key: {"$lt": _BEYOND_EDGE}}]) if number == _EDGE else others


def _membership_to_chroma(key: str, operator: str, values: tuple[Scalar, ...]) -> dict[str, object]:
    """One list a type, as Chroma wants it, with the cut of fractions undone as above."""
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
    cuts = [_truncated(number) for number in fractions]
    if whole:
        clauses.append({key: {operator: whole}})
    if fractions:
        undo: dict[str, object] = {key: {"$nin" if selected else "$in": cuts}}
        clauses.append(joined("$and" if selected else "$or", [{key: {operator: fractions}}, undo]))
    return joined("$or" if selected else "$and", clauses)


def _containment_to_chroma(key: str, operator: str, number: int | float) -> dict[str, object]:
    """Chroma keeps lists of integers and lists of floats apart; ask for both."""
    whole = _truncated(number)
    if whole != number:
        return {key: {operator: number}}
    both: list[dict[str, object]] = [{key: {operator: whole}}, {key: {operator: float(number)}}]
    return joined("$or" if operator == "$contains" else "$and", both)
