"""Filters over metadata: the store's `where` language, parsed, evaluated, and reduced to what each engine can express.

Metadata of a chunk are flat: no value is a list, so `$contains` selects nothing and `$not_contains` everything.
"""

from __future__ import annotations

import operator as compare
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from ragstore.kit.errors import InvalidRequest
from ragstore_client import Where
from ragstore_gateway.vector_stores.vector_store import MetadataValue

MAX_DEPTH: Final = 32
"""Maximum depth of `$and` and `$or`, as in the store."""

MAX_CLAUSES: Final = 500
"""Maximum number of comparisons in a filter, as in the store."""

MAX_VALUES: Final = 8_000
"""Maximum number of values in all lists of a filter, as in the store."""

Order: TypeAlias = Literal["$gt", "$gte", "$lt", "$lte"]

ORDERS: Final[Mapping[Order, Callable[[float, float], bool]]] = {
    "$gt": compare.gt,
    "$gte": compare.ge,
    "$lt": compare.lt,
    "$lte": compare.le,
}


class OneOf(Struct, frozen=True, dict=True):
    """The value of a key equals one of some values. 1 equals 1.0; a boolean is no number."""

    key: str
    values: tuple[MetadataValue, ...]

    @cached_property
    def typed_values(self) -> frozenset[tuple[type, MetadataValue]]:
        """The values with their types. There may be 8,000 of them: a record is not compared with each."""
        return frozenset(map(_typed, self.values))


class Compared(Struct, frozen=True):
    """The value of a key is a number, and the comparison holds."""

    key: str
    order: Order
    number: int | float


class Not(Struct, frozen=True):
    """The opposite of a filter. It selects records without the key, too."""

    filter: Filter


class All(Struct, frozen=True):
    """All filters hold; without filters, every record matches."""

    filters: tuple[Filter, ...]


class Either(Struct, frozen=True):
    """At least one filter holds; without filters, no record matches."""

    filters: tuple[Filter, ...]


Filter: TypeAlias = OneOf | Compared | Not | All | Either

EVERYTHING: Final = All(())


def parse(where: Where | None, path: str = "$.where") -> Filter:
    """Parse a filter.

    Args:
        where: the filter; None and `{}` select everything.
        path: its JSON path, for errors.

    Raises:
        InvalidRequest: it is not a filter of the language; the error names the path.
    """
    return EVERYTHING if where is None else _Parser().filter(where, path, 0)


def parse_deletion(where: Where) -> Filter:
    """Parse the filter of a deletion, which must not select everything; see `parse`."""
    parsed = parse(where)
    if _selects_everything(parsed):
        raise InvalidRequest.at("$.where", "The filter of a deletion must not select everything")
    return parsed


def _selects_everything(filter_: Filter) -> bool:
    match filter_:
        case All(filters):
            return all(_selects_everything(each) for each in filters)
        case Either(filters):
            return any(_selects_everything(each) for each in filters)
    return False


def matches(filter_: Filter, metadata: Mapping[str, MetadataValue]) -> bool:
    """Whether a filter selects metadata."""
    match filter_:
        case OneOf(key):
            return key in metadata and _typed(metadata[key]) in filter_.typed_values
        case Compared(key, order, number):
            value = metadata.get(key)
            return is_number(value) and ORDERS[order](value, number)  # type: ignore[arg-type]  # it is a number
        case Not(inner):
            return not matches(inner, metadata)
        case All(filters):
            return all(matches(each, metadata) for each in filters)
        case Either(filters):
            return any(matches(each, metadata) for each in filters)


def is_number(value: object) -> bool:
    """Whether a value is a number. A boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _typed(value: MetadataValue) -> tuple[type, MetadataValue]:
    """A value with its type, which is the same one for all numbers: values are equal if both are."""
    return (float if is_number(value) else type(value)), value


def _all(filters: Sequence[Filter]) -> Filter:
    """All of some filters. Engines limit the depth of a filter, so one `$and` within another one is merged."""
    merged = [part for each in filters for part in (each.filters if isinstance(each, All) else (each,))]
    return merged[0] if len(merged) == 1 else All(tuple(merged))


def _either(filters: Sequence[Filter]) -> Filter:
    """At least one of some filters; see `_all`."""
    merged = [part for each in filters for part in (each.filters if isinstance(each, Either) else (each,))]
    return merged[0] if len(merged) == 1 else Either(tuple(merged))


class _Parser:
    def __init__(self) -> None:
        self._clauses = 0
        self._values = 0

    def filter(self, value: object, path: str, depth: int) -> Filter:
        if depth > MAX_DEPTH:
            raise InvalidRequest.at(path, f"A filter has at most {MAX_DEPTH} levels")
        if not isinstance(value, Mapping):
            raise InvalidRequest.at(path, "A filter must be an object")
        if not value:
            self._count(path)
        parts: list[Filter] = []
        for key, nested in value.items():
            below = f"{path}.{key}"
            if key in ("$and", "$or"):
                parts.append(self._combination(key, nested, below, depth))
            elif not isinstance(key, str) or not key or key.startswith("$"):
                raise InvalidRequest.at(below, "Unknown operator; known here are $and and $or")
            elif isinstance(nested, Mapping):
                if not nested:
                    raise InvalidRequest.at(below, "An object of operators must not be empty")
                parts += [
                    self._comparison(key, operator, operand, f"{below}.{operator}")
                    for operator, operand in nested.items()
                ]
            else:
                parts.append(self._comparison(key, "$eq", nested, below))
        return _all(parts)

    def _combination(self, operator: str, value: object, path: str, depth: int) -> Filter:
        if not isinstance(value, list | tuple) or not value:
            raise InvalidRequest.at(path, f"{operator} takes a list of filters that is not empty")
        parts = tuple(self.filter(each, f"{path}[{index}]", depth + 1) for index, each in enumerate(value))
        return _all(parts) if operator == "$and" else _either(parts)

    def _comparison(self, key: str, operator: object, operand: object, path: str) -> Filter:
        self._count(path)
        match operator:
            case "$eq":
                return OneOf(key, (self._scalar(operand, path),))
            case "$ne":
                return Not(OneOf(key, (self._scalar(operand, path),)))
            case "$in":
                return OneOf(key, self._scalars(operand, path))
            case "$nin":
                return Not(OneOf(key, self._scalars(operand, path)))
            case "$gt" | "$gte" | "$lt" | "$lte":
                number = self._scalar(operand, path)
                if isinstance(number, bool | str):
                    raise InvalidRequest.at(path, f"{operator} takes a number")
                return Compared(key, operator, number)
            case "$contains":
                self._scalar(operand, path)
                return Either(())
            case "$not_contains":
                self._scalar(operand, path)
                return EVERYTHING
        raise InvalidRequest.at(
            path,
            "Unknown operator; known are $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $contains, $not_contains",
        )

    def _count(self, path: str) -> None:
        """Count a comparison, or an empty filter: each costs time for each record."""
        self._clauses += 1
        if self._clauses > MAX_CLAUSES:
            raise InvalidRequest.at(path, f"A filter has at most {MAX_CLAUSES} comparisons")

    def _scalars(self, value: object, path: str) -> tuple[MetadataValue, ...]:
        if not isinstance(value, list | tuple) or not value:
            raise InvalidRequest.at(path, "Takes a list that is not empty")
        self._values += len(value)
        if self._values > MAX_VALUES:
            raise InvalidRequest.at(path, f"The lists of a filter have at most {MAX_VALUES} values")
        values = tuple(self._scalar(each, f"{path}[{index}]") for index, each in enumerate(value))
        if len({float if is_number(each) else type(each) for each in values}) > 1:
            raise InvalidRequest.at(path, "Takes values of one type")
        return values

    def _scalar(self, value: object, path: str) -> MetadataValue:
        if isinstance(value, bool | str):
            return value
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                raise InvalidRequest.at(path, "An integer has at most 64 bits")
            return value
        if isinstance(value, float):
            if value - value != 0:
                raise InvalidRequest.at(path, "A number must be finite")
            return value
        raise InvalidRequest.at(path, "Must be a string, a number or a boolean")
