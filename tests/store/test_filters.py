"""Both filter languages, through every store, against a plain reading of them."""

from __future__ import annotations

from itertools import product
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragstore.api.schemas import MAX_IDS
from ragstore.filters import where
from ragstore.filters.grammar import MAX_CLAUSES, MAX_DEPTH, MAX_VALUES
from ragstore.filters.where import CONTAINMENT, EQUALITY, MEMBERSHIP, ORDER
from ragstore.model.documents import Selection
from ragstore.model.filters.condition import Condition
from ragstore.model.metadata import Metadata
from ragstore.store.protocol import Store
from tests.support.factories import add_documents, batch_of, of_where, upsert_documents
from tests.support.filter_oracle import Json, Value, selects
from tests.support.filter_strategies import BOOLEANS, FLOATS, INTEGERS, LISTS, STRINGS, filters, metadatas

pytestmark = pytest.mark.process

EXAMPLES = 30


async def _selected(store: Store, collection: str, filtered: object) -> list[str]:
    return (await store.get(collection, of_where(filtered))).ids


def _every_operation() -> list[Json]:
    """Each operator with operands of each type that it takes."""
    numbers = (*INTEGERS, *FLOATS)
    scalars = (*numbers, *STRINGS, *BOOLEANS)
    sets = ([1, 2.5], [0.5], [2.0**63], [2**63 - 1, 0.1], [1e300, 1], ["a", ""], [True], [False, True], [-1.5, -1])
    operations: list[tuple[str, object]] = [
        *product((*EQUALITY, *CONTAINMENT), scalars),
        *product(ORDER, numbers),
        *product(MEMBERSHIP, sets),
    ]
    return [{"a": {operator: operand}} for operator, operand in operations]


async def test_matches_agrees_with_the_store_on_every_operator_type_and_absence(
    store: Store, store_collection: str
) -> None:
    values: list[Value] = [*INTEGERS, *FLOATS, *STRINGS, *BOOLEANS, *LISTS]
    documents: list[Metadata] = [{}, {"b": 1}, *({"a": value} for value in values)]
    await add_documents(store, store_collection, batch_of(documents))
    for filtered in _every_operation():
        parsed = where.parse(filtered)
        matching = [str(index) for index, metadata in enumerate(documents) if where.matches(parsed, metadata)]
        assert await _selected(store, store_collection, filtered) == matching, filtered


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    documents=st.lists(metadatas, min_size=1, max_size=30), selected_filters=st.lists(filters, min_size=5, max_size=15)
)
async def test_matches_agrees_with_the_store_on_whole_filters(
    store: Store, documents: list[Metadata], selected_filters: list[Json]
) -> None:
    name = f"t-{uuid4().hex}"
    await store.create_collection(name, {}, "l2")
    await upsert_documents(store, name, batch_of(documents))
    for filtered in selected_filters:
        parsed = where.parse(filtered)
        matching = [str(index) for index, metadata in enumerate(documents) if where.matches(parsed, metadata)]
        assert await _selected(store, name, filtered) == matching, filtered
    await store.delete_collection(name)


@pytest.mark.parametrize("count", [1, 100, 101, 500])
async def test_a_filter_may_have_as_many_comparisons_as_its_bound(
    store: Store, store_collection: str, count: int
) -> None:
    await add_documents(store, store_collection, batch_of([{"a": count - 1}, {"a": count}]))
    assert await _selected(store, store_collection, {"$or": [{"a": index} for index in range(count)]}) == ["0"]
    assert await _selected(store, store_collection, {"$and": [{"a": {"$ne": index}} for index in range(count)]}) == [
        "1"
    ]


async def test_a_filter_may_be_as_deep_as_its_bound(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch_of([{"a": 1}, {"a": 2}]))
    filtered: Json = {"a": 1.5}
    for depth in range(MAX_DEPTH):
        filtered = {"$and" if depth % 2 else "$or": [{"a": {"$lt": 1.5}}, filtered]}
    assert await _selected(store, store_collection, filtered) == ["0"]


async def test_a_filter_and_ids_may_be_as_long_as_their_bounds_together(store: Store, store_collection: str) -> None:
    await add_documents(store, store_collection, batch_of([{"a": 1}, {"a": 2}, {"a": 0.5}]))
    ids = tuple(str(index) for index in range(MAX_IDS))
    for many in ([*range(2, MAX_VALUES + 2)], [index + 0.5 for index in range(MAX_VALUES // 2)]):
        clauses = [{"a": {"$ne": -index - 0.5}} for index in range(MAX_CLAUSES - 1)]
        filtered = where.parse({"$and": [{"a": {"$in": many}}, *clauses]})
        found = await store.get(store_collection, Selection(ids, Condition(filtered)))
        assert found.ids == (["1"] if 2 in many else ["2"])


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    documents=st.lists(metadatas, min_size=1, max_size=30), selected_filters=st.lists(filters, min_size=5, max_size=15)
)
async def test_a_filter_selects_what_a_plain_reading_of_it_selects(
    store: Store, documents: list[dict[str, Value]], selected_filters: list[Json]
) -> None:
    name = f"t-{uuid4().hex}"
    await store.create_collection(name, {}, "l2")
    await upsert_documents(store, name, batch_of(documents))
    for filtered in selected_filters:
        meant = [str(index) for index, metadata in enumerate(documents) if selects(filtered, metadata)]
        assert await _selected(store, name, filtered) == meant, filtered
    await store.delete_collection(name)
