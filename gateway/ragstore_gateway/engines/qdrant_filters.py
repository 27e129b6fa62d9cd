"""Filters in Qdrant's form."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from qdrant_client.models import Condition, FieldCondition, HasIdCondition, MatchAny, Range
from qdrant_client.models import Filter as QdrantFilter

from ragstore_gateway.engines import filters
from ragstore_gateway.engines.filters import All, Compared, Either, Filter, Not, OneOf
from ragstore_gateway.engines.names import field_name
from ragstore_gateway.engines.tokens import key_tokens

TOKENS: Final = "tokens"
NUMBERS: Final = "numbers"
"""The fields of a point with its tokens, and with its numbers by key."""

_OPERATORS: Final = {"$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}


def numbers_field(key: str) -> str:
    """The field of a point that has the numbers of a key."""
    return f'{NUMBERS}."{field_name(key)}"'


def without_unknown_numbers(filter_: Filter, indexed: Set[str]) -> Filter:
    """A filter without comparisons of keys that have no index. No record matches them."""
    match filter_:
        case Compared(key):
            return filter_ if numbers_field(key).replace('"', "") in indexed else Either(())
        case Not(inner):
            return Not(without_unknown_numbers(inner, indexed))
        case All(filters_):
            return All(tuple(without_unknown_numbers(each, indexed) for each in filters_))
        case Either(filters_):
            return Either(tuple(without_unknown_numbers(each, indexed) for each in filters_))
    return filter_


def qdrant_filter(filter_: Filter) -> QdrantFilter | None:
    """A filter for Qdrant; None for all points."""
    if filter_ == filters.EVERYTHING:
        return None
    condition = _condition(filter_)
    return condition if isinstance(condition, QdrantFilter) else QdrantFilter(must=[condition])


def _condition(filter_: Filter) -> Condition:
    match filter_:
        case OneOf(key, values):
            return FieldCondition(key=TOKENS, match=MatchAny(any=key_tokens(key, values)))
        case Compared(key, order, number):
            # A range compares doubles.
            return FieldCondition(key=numbers_field(key), range=Range(**{_OPERATORS[order]: number}))
        case Not(inner):
            return QdrantFilter(must_not=[_condition(inner)])
        case All(filters_):
            return QdrantFilter(must=[_condition(each) for each in filters_])
        case Either(()):
            return HasIdCondition(has_id=[])
        case Either(filters_):
            return QdrantFilter(should=[_condition(each) for each in filters_])
