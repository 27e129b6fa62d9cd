"""The `where` language: filters over metadata.

It is Chroma's language with the semantics that its documentation implies. A filter is a JSON object:

- `{"a": 1}` and `{"a": {"$eq": 1}}`: the value of `a` equals 1. Numbers compare as numbers: 1 equals 1.0.
  A boolean is not a number, and a list equals nothing.
- `$ne`: not `$eq`; so it also selects documents without the key.
- `$gt`, `$gte`, `$lt`, `$lte`: the value is a number, and the comparison holds.
- `$in`: the value equals an item of a list, whose items have one type; `$nin`: not `$in`.
- `$contains`: the value is a list with this item; `$not_contains`: not `$contains`.
- several fields, or several operators on one field: all must hold.
- `$and`, `$or`: lists of filters. `{}` selects everything.

`parse` parses a filter, and `matches` evaluates it. Translators for Chroma and other engines select the same documents.

One limit: Chroma converts an integer of a filter to a double to compare it with a stored float, which rounds beyond
2**53. `matches` does the same. A float of a filter is compared with stored integers exactly.
"""

from __future__ import annotations

import math
import operator as compare
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final, TypeAlias

import msgspec

from ragstore.filters.grammar import Combination, Filter, FilterErrors, FilterParser
from ragstore.filters.values import MAX_INT, MIN_INT, MetadataValue, Scalar, is_reserved

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
_ERRORS: Final = FilterErrors("where")


class Comparison(msgspec.Struct, frozen=True, dict=True):
    """One operator on one key.

    Attributes:
        key: the metadata key.
        operator: one of `OPERATORS`.
        operand: a scalar; for `$in` and `$nin` a tuple of scalars.
    """

    key: str
    operator: str
    operand: Operand

    @cached_property
    def items(self) -> frozenset[tuple[type, Scalar]]:
        """The items of a list, with their types. There may be 8,000: a document is not compared with each."""
        items = self.operand if isinstance(self.operand, tuple) else (self.operand,)
        return frozenset((_kind(item), item) for item in items)

    @cached_property
    def rounded_items(self) -> frozenset[tuple[type, Scalar]]:
        """The items with integers as Chroma compares them with a stored float; see `_comparable`."""
        return frozenset((kind, float(item) if kind is float else item) for kind, item in self.items)


Where: TypeAlias = Filter[Comparison]


def parse_text(text: str) -> Where | None:
    """Parse a filter from JSON text; see `FilterParser.parse_text`."""
    return WhereParser(_ERRORS).parse_text(text)


def parse(value: object) -> Where | None:
    """Parse a filter from a decoded JSON value; see `FilterParser.parse`."""
    return WhereParser(_ERRORS).parse(value)


class WhereParser(FilterParser[Comparison]):
    """Parses one filter over metadata; see `FilterParser`."""

    def comparisons(self, key: str, value: object, path: str) -> list[Comparison]:
        """Parse the value or the operators of one key; see `FilterParser.comparisons`."""
        if key.startswith("$"):
            raise self.errors.error(f"unknown operator '{key}'", path)
        if is_reserved(key):
            raise self.errors.error("a key must not be empty or begin with 'chroma:' or '#'", path)
        if not isinstance(value, dict):
            return [Comparison(key, "$eq", self._scalar(value, path))]
        if not value:
            raise self.errors.error("an object of operators must not be empty", path)
        return [
            Comparison(key, operator, self.operand(operator, operand, f"{path}.{operator}"))
            for operator, operand in value.items()
        ]

    def operand(self, operator: str, value: object, path: str) -> Operand:
        """Parse the operand of an operator.

        Args:
            operator: the operator.
            value: the decoded JSON value of the operand.
            path: its JSON path.

        Raises:
            InvalidFilter: there is no such operator, or it does not take the value.
        """
        if operator not in OPERATORS:
            raise self.errors.error(f"unknown operator '{operator}'", path)
        if operator in MEMBERSHIP:
            return self._set(operator, value, path)
        operand = self._scalar(value, path)
        if operator in ORDER and (isinstance(operand, (bool, str))):
            raise self.errors.error(f"'{operator}' takes a number", path)
        return operand

    def _set(self, operator: str, value: object, path: str) -> tuple[Scalar, ...]:
        if not isinstance(value, list) or not value:
            raise self.errors.error(f"'{operator}' takes a non-empty list", path)
        self.count_values(len(value) + sum(isinstance(item, float) for item in value))
        values = tuple(self._scalar(item, f"{path}[{index}]") for index, item in enumerate(value))
        if len({_kind(item) for item in values}) > 1:
            raise self.errors.error(f"'{operator}' takes values of one type", path)
        return values

    def _scalar(self, value: object, path: str) -> Scalar:
        if isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            if not MIN_INT <= value <= MAX_INT:
                raise self.errors.error("an integer must fit in 64 bits", path)
            return value
        if isinstance(value, float):
            if not math.isfinite(value):
                raise self.errors.error("a number must be finite", path)
            return value
        raise self.errors.error("a value must be a string, a number or a boolean", path)


def _kind(value: Scalar) -> type:
    """The type of a value for comparisons. All numbers have one type."""
    return float if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value)


def matches(where: Where | None, metadata: Mapping[str, MetadataValue]) -> bool:
    """Evaluate a filter.

    Args:
        where: the filter; None selects everything.
        metadata: the metadata of a document.

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
        case Comparison(key):
            return _holds(where, metadata.get(key))


def _holds(comparison: Comparison, value: MetadataValue | None) -> bool:
    operator, operand = comparison.operator, comparison.operand
    if isinstance(operand, tuple):
        return _is_item(value, comparison) == (operator == "$in")
    if operator in EQUALITY:
        return _equal(value, operand) == (operator == "$eq")
    if operator in CONTAINMENT:
        contained = isinstance(value, list) and any(_equal(item, operand) for item in value)
        return contained == (operator == "$contains")
    if value is None or isinstance(value, (bool, str, list)) or isinstance(operand, (bool, str)):
        return False
    return _ORDERS[operator](*_comparable(value, operand))


def _is_item(value: MetadataValue | None, comparison: Comparison) -> bool:
    if value is None or isinstance(value, list):
        return False
    return (_kind(value), value) in (comparison.rounded_items if isinstance(value, float) else comparison.items)


def _equal(value: MetadataValue | None, operand: Scalar) -> bool:
    if value is None or isinstance(value, list) or _kind(value) is not _kind(operand):
        return False
    if isinstance(value, (bool, str)) or isinstance(operand, (bool, str)):
        return value == operand
    number, other = _comparable(value, operand)
    return number == other


def _comparable(value: int | float, operand: int | float) -> tuple[int | float, int | float]:
    """Both numbers as Chroma compares them: with a stored float, an integer becomes a double, rounded beyond 2**53."""
    return (value, float(operand)) if isinstance(value, float) else (value, operand)
