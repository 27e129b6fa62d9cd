"""Filters cost little for each record, whatever their size, and are evaluated outside the event loop."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from ragstore.filters.grammar import MAX_CLAUSES, MAX_VALUES
from ragstore.filters.where import matches, parse
from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.engines.engine_collection import Record
from ragstore_gateway.engines.filters import EVERYTHING, parse_deletion
from ragstore_gateway.engines.filters import parse as reduced
from ragstore_gateway.engines.in_memory_store import InMemoryStore
from ragstore_gateway.openai_vector_stores.attribute_filters import parse_filter


class ObservedNumber(int):
    """A number that counts its comparisons, and knows the threads that it is hashed in."""

    def __new__(cls, value: int) -> ObservedNumber:
        """Create one without comparisons."""
        created = super().__new__(cls, value)
        created.comparisons = 0
        created.threads = set()
        return created

    comparisons: int
    threads: set[int]

    def __eq__(self, other: object) -> bool:
        """Count a comparison."""
        self.comparisons += 1
        return super().__eq__(other)

    def __hash__(self) -> int:
        """Record the thread."""
        self.threads.add(threading.get_ident())
        return super().__hash__()


def test_a_value_is_not_compared_with_each_of_a_list() -> None:
    filter_ = parse({"n": {"$in": list(range(MAX_VALUES))}})
    absent, present = ObservedNumber(-1), ObservedNumber(MAX_VALUES - 1)
    assert (matches(filter_, {"n": absent}), matches(filter_, {"n": present})) == (False, True)
    assert absent.comparisons + present.comparisons < 20


@pytest.mark.parametrize(("stored", "found"), [(1, True), (1.0, True), (True, False), ("1", False), (2, False)])
def test_a_number_of_a_list_is_no_boolean_and_no_text(stored: float | str, found: bool) -> None:
    assert matches(parse({"n": {"$in": [1, 3.0]}}), {"n": stored}) is found


def test_empty_filters_select_everything_and_cost_nothing_for_a_record() -> None:
    assert parse({"$and": [{}] * (MAX_CLAUSES + 1)}) is None
    assert reduced({"$or": [{}] * (MAX_CLAUSES + 1)}) == EVERYTHING
    assert reduced({"$or": [{"a": 1}, {"$and": [{}, {}]}]}) == EVERYTHING


def test_the_opposite_of_a_list_s_item_is_everything_for_flat_metadata() -> None:
    assert reduced({"$or": [{"a": {"$not_contains": 1}}, {"b": 2}]}) == EVERYTHING
    with pytest.raises(InvalidRequest, match="must not select everything"):
        parse_deletion({"$or": [{"a": {"$not_contains": 1}}, {"b": 2}]})


def test_an_attribute_may_have_a_name_that_metadata_of_the_store_may_not() -> None:
    filter_ = parse_filter({"type": "eq", "key": "#x", "value": 1})
    assert (matches(filter_, {"#x": 1}), matches(filter_, {"#x": 2})) == (True, False)


def test_the_rest_of_a_filter_of_too_many_comparisons_is_not_read() -> None:
    comparison = {"type": "eq", "key": "n", "value": 1}
    with pytest.raises(InvalidRequest, match=f"more than {MAX_CLAUSES} comparisons"):
        parse_filter({"type": "or", "filters": [comparison] * (MAX_CLAUSES + 1) + ["no filter"]})
    long = {"type": "in", "key": "n", "value": list(range(MAX_VALUES // 2 + 1))}
    with pytest.raises(InvalidRequest, match=f"more than {MAX_VALUES} values"):
        parse_filter({"type": "or", "filters": [long, long, "no filter"]})


async def test_a_collection_in_memory_is_filtered_in_a_thread() -> None:
    store = InMemoryStore({}, "a", 1)
    await store.create()
    number = ObservedNumber(1)
    vector = np.ones(1, dtype=np.float32)
    await store.write([Record("a", "text", vector, {"n": number})])
    where = {"n": {"$in": [1, 2]}}
    assert len(await store.search(vector, 1, where=where)) == 1
    assert (await store.count(where), await store.delete(where)) == (1, 1)
    assert number.threads
    assert threading.get_ident() not in number.threads
