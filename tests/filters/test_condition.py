"""A condition is translated for Chroma once, and its key identifies it."""

from __future__ import annotations

import pytest

from ragstore.model.filters.condition import KEY_BYTES, NO_CONDITION, Condition

SAME = [
    ({}, None, None, None),
    ({"a": 1}, None, {"a": {"$eq": 1}}, None),
    ({"a": 1, "b": 2}, None, {"$and": [{"a": 1}, {"b": 2}]}, None),
    (None, {"$contains": "x"}, None, {"$contains": "x"}),
]
OTHERS = [
    (None, None),
    ({"a": 1}, None),
    ({"a": "1"}, None),
    ({"a": True}, None),
    ({"a": {"$ne": 1}}, None),
    ({"b": 1}, None),
    (None, {"$contains": "a"}),
    (None, {"$not_contains": "a"}),
    ({"a": 1}, {"$contains": "a"}),
]


@pytest.mark.parametrize(("given", "text", "other", "other_text"), SAME)
def test_equal_conditions_have_one_key(given: object, text: object, other: object, other_text: object) -> None:
    assert Condition.parse(given, text).key == Condition.parse(other, other_text).key


def test_different_conditions_have_different_keys() -> None:
    assert len({Condition.parse(*given).key for given in OTHERS}) == len(OTHERS)


def test_a_key_has_the_same_size_for_every_filter() -> None:
    assert len(Condition.parse({"n": {"$in": [*range(5000)]}}).key) == KEY_BYTES


@pytest.mark.parametrize("empty", [NO_CONDITION, Condition.parse({}, {})])
def test_no_condition_has_no_key_and_no_filter_for_chroma(empty: Condition) -> None:
    assert empty.is_none
    assert (empty.key, empty.chroma_where, empty.chroma_where_document) == (b"", None, None)
