"""Filters over metadata, reduced to what each engine can express.

Metadata of a chunk are flat: no value is a list, so `$contains` selects nothing and `$not_contains` everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from ragstore.filters import where as language
from ragstore.filters.grammar import Combination
from ragstore.kit.errors import InvalidRequest
from ragstore_client import Where
from ragstore_gateway.engines.engine_collection import MetadataValue

Order: TypeAlias = Literal["$gt", "$gte", "$lt", "$lte"]


class OneOf(Struct, frozen=True):
    """The value of a key equals one of some values. 1 equals 1.0; a boolean is no number."""

    key: str
    values: tuple[MetadataValue, ...]


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


def parse(where: Where | None) -> Filter:
    """Parse a filter, and reduce it.

    Args:
        where: the filter; None and `{}` select everything.

    Raises:
        InvalidFilter: it is not a filter of the language; the error names the path.
    """
    parsed = language.parse(where)
    return EVERYTHING if parsed is None else _reduced(parsed)


def parse_deletion(where: Where) -> Filter:
    """Parse the filter of a deletion, which must not select everything; see `parse`."""
    parsed = parse(where)
    if parsed == EVERYTHING:
        raise InvalidRequest.at("$.where", "The filter of a deletion must not select everything")
    return parsed


def is_number(value: object) -> bool:
    """Whether a value is a number. A boolean is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _reduced(where: language.Where) -> Filter:
    match where:
        case Combination("$and", clauses):
            return _all(map(_reduced, clauses))
        case Combination(_, clauses):
            return _either(map(_reduced, clauses))
        case language.Comparison(_, "$contains"):
            return Either(())
        case language.Comparison(_, "$not_contains"):
            return EVERYTHING
        case language.Comparison(key, ("$gt" | "$gte" | "$lt" | "$lte") as order, (int() | float()) as number):
            return Compared(key, order, number)
        case language.Comparison(key, operator, operand):
            one_of = OneOf(key, operand if isinstance(operand, tuple) else (operand,))
            return Not(one_of) if operator in ("$ne", "$nin") else one_of


def _all(filters: Iterable[Filter]) -> Filter:
    """All of some filters. Engines limit the depth of a filter, so one `$and` within another one is merged."""
    merged = [part for each in filters for part in (each.filters if isinstance(each, All) else (each,))]
    return merged[0] if len(merged) == 1 else All(tuple(merged))


def _either(filters: Iterable[Filter]) -> Filter:
    """At least one of some filters; see `_all`."""
    merged = [part for each in filters for part in (each.filters if isinstance(each, Either) else (each,))]
    if EVERYTHING in merged:
        return EVERYTHING
    return merged[0] if len(merged) == 1 else Either(tuple(merged))
