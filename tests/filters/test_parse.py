"""Parsing of filters: valid ones, invalid ones, and the errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstore.filters import where
from ragstore.filters.grammar import MAX_CLAUSES, MAX_DEPTH, MAX_VALUES, InvalidFilter
from ragstore.model.filters import where_document
from ragstore.model.filters.combinations import MAX_SIBLINGS, combine
from ragstore.model.filters.where_document import MAX_REGEX_CHARACTERS, MAX_TEXT
from tests.support.filter_oracle import Json, Value, selects
from tests.support.filter_strategies import filters, metadatas

_keys = (
    st.sampled_from(("", "a", "$and", "$or", "$eq", "$in", "$contains", "$regex", "$gt", "#x", "chroma:x")) | st.text()
)
_leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
_anything = st.recursive(
    _leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=4), max_leaves=12
)


def _invalid_filter(parse: Callable[[Any], object], value: object) -> InvalidFilter | None:
    try:
        parse(value)
    except InvalidFilter as error:
        return error
    return None


@pytest.mark.parametrize("parse", [where.parse, where_document.parse])
@given(value=_anything | st.dictionaries(st.integers() | st.binary(), _leaves))
def test_parse_raises_nothing_but_invalid_filter(parse: Callable[[object], object], value: object) -> None:
    error = _invalid_filter(parse, value)
    assert error is None or error.detail.startswith("Invalid 'where")
    assert error is None or error.field_errors[0].path.startswith("$.where")


@pytest.mark.parametrize("parse", [where.parse_text, where_document.parse_text])
@given(text=st.text() | _anything.map(lambda value: json.dumps(value, default=str)))
def test_parse_text_raises_nothing_but_invalid_filter(parse: Callable[[str], object], text: str) -> None:
    error = _invalid_filter(parse, text)
    assert error is None or error.detail.startswith("Invalid 'where")


@given(filtered=filters, metadata=metadatas)
def test_matches_agrees_with_the_oracle(filtered: Json, metadata: dict[str, Value]) -> None:
    assert where.matches(where.parse(filtered), metadata) == selects(filtered, metadata)


@given(filtered=filters)
def test_a_filter_as_text_is_the_filter(filtered: Json) -> None:
    assert where.parse_text(json.dumps(filtered)) == where.parse(filtered)


@pytest.mark.parametrize(
    "given",
    [None, {}, {"$and": [{}]}, {"$or": [{}, {"a": 1}]}, {"$and": [{}, {"$or": [{}]}]}, {"$or": [{"$and": [{}]}]}],
)
def test_a_filter_that_selects_everything_is_parsed_as_none(given: object) -> None:
    assert where.parse(given) is None


@pytest.mark.parametrize(
    "clause", [{"$and": [{"a": 1}]}, {"$or": [{"a": 1}]}, {"$and": [{"a": 1}, {}]}, {"a": {"$eq": 1}}]
)
def test_a_filter_of_one_comparison_is_parsed_as_that_comparison(clause: object) -> None:
    assert where.parse(clause) == where.parse({"a": 1})


WRONG: list[tuple[object, str]] = [
    ([], "must be a JSON object at $.where"),
    ("a", "must be a JSON object at $.where"),
    (1, "must be a JSON object at $.where"),
    ({"$nor": []}, "unknown operator '$nor' at $.where.$nor"),
    ({"a": {"$like": "x"}}, "unknown operator '$like' at $.where.a.$like"),
    ({"a": {"b": 1}}, "unknown operator 'b' at $.where.a.b"),
    ({"a": {}}, "an object of operators must not be empty at $.where.a"),
    ({"a": None}, "a value must be a string, a number or a boolean at $.where.a"),
    ({"a": [1]}, "a value must be a string, a number or a boolean at $.where.a"),
    ({"a": {"$eq": None}}, "a value must be a string, a number or a boolean at $.where.a.$eq"),
    ({"a": {"$in": []}}, "'$in' takes a non-empty list at $.where.a.$in"),
    ({"a": {"$in": 1}}, "'$in' takes a non-empty list at $.where.a.$in"),
    ({"a": {"$nin": [1, "1"]}}, "'$nin' takes values of one type at $.where.a.$nin"),
    ({"a": {"$in": [1, True]}}, "'$in' takes values of one type at $.where.a.$in"),
    ({"a": {"$in": [1, None]}}, "a value must be a string, a number or a boolean at $.where.a.$in[1]"),
    ({"a": {"$gt": "1"}}, "'$gt' takes a number at $.where.a.$gt"),
    ({"a": {"$lte": True}}, "'$lte' takes a number at $.where.a.$lte"),
    ({"a": 2**63}, "an integer must fit in 64 bits at $.where.a"),
    ({"a": -(2**63) - 1}, "an integer must fit in 64 bits at $.where.a"),
    ({"a": float("nan")}, "a number must be finite at $.where.a"),
    ({"a": {"$gt": float("inf")}}, "a number must be finite at $.where.a.$gt"),
    ({"$and": []}, "'$and' takes a non-empty list of filters at $.where.$and"),
    ({"$or": {"a": 1}}, "'$or' takes a non-empty list of filters at $.where.$or"),
    ({"$or": [{"a": 1}, 2]}, "must be a JSON object at $.where.$or[1]"),
    ({"$and": [{"$or": [{"a": {"$no": 1}}]}]}, "unknown operator '$no' at $.where.$and[0].$or[0].a.$no"),
    ({"": 1}, "a key must not be empty or begin with 'chroma:' or '#' at $.where."),
    ({"#x": 1}, "a key must not be empty or begin with 'chroma:' or '#' at $.where.#x"),
    ({"chroma:x": 1}, "a key must not be empty or begin with 'chroma:' or '#' at $.where.chroma:x"),
    ({1: 1}, "a key must be a string at $.where"),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_an_invalid_filter_is_reported_with_its_path(given: object, message: str) -> None:
    with pytest.raises(InvalidFilter) as rejected:
        where.parse(given)
    assert rejected.value.detail == f"Invalid 'where' filter: {message}"
    assert rejected.value.field_errors[0].path == message.rpartition(" at ")[2]


@pytest.mark.parametrize("text", ["", "{", "a", "{'a': 1}", '{"a": 1}}', '{"a": NaN}', '{"a": 1e999}', "\ud800"])
def test_text_that_is_not_json_has_an_exact_message(text: str) -> None:
    with pytest.raises(InvalidFilter) as rejected:
        where.parse_text(text)
    assert rejected.value.detail == "Invalid 'where' filter: must be valid JSON"


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 5_000, 100_000])
def test_a_filter_that_is_too_deep_is_rejected(depth: int) -> None:
    text = '{"$and": [' * depth + '{"a": 1}' + "]}" * depth
    with pytest.raises(InvalidFilter, match=f"nested more than {MAX_DEPTH} levels deep"):
        where.parse_text(text)


def test_a_filter_with_too_many_comparisons_is_rejected() -> None:
    where.parse({"$or": [{"a": 1}] * MAX_CLAUSES})
    with pytest.raises(InvalidFilter, match=f"more than {MAX_CLAUSES} comparisons"):
        where.parse({"$or": [{"a": 1}] * (MAX_CLAUSES + 1)})


def test_a_filter_with_too_many_values_is_rejected() -> None:
    where.parse({"a": {"$in": [1] * MAX_VALUES}})
    where.parse({"a": {"$in": [0.5] * (MAX_VALUES // 2)}})
    with pytest.raises(InvalidFilter, match=f"more than {MAX_VALUES} values"):
        where.parse({"a": {"$in": [1] * MAX_VALUES}, "b": {"$nin": [1]}})
    with pytest.raises(InvalidFilter, match=f"more than {MAX_VALUES} values"):
        where.parse({"a": {"$in": [0.5] * (MAX_VALUES // 2 + 1)}})


def test_regular_expressions_have_a_maximum_in_total() -> None:
    expressions = [{"$regex": "a" * MAX_TEXT}, {"$not_regex": "b" * MAX_TEXT}] * (MAX_REGEX_CHARACTERS // MAX_TEXT // 2)
    where_document.parse({"$or": [*expressions, {"$contains": "c" * MAX_TEXT}]})
    with pytest.raises(InvalidFilter, match=f"more than {MAX_REGEX_CHARACTERS} characters in its regular expressions"):
        where_document.parse({"$or": [*expressions, {"$regex": "d"}]})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": 1}, "unknown operator 'a' at $.where_document.a"),
        ({"$contains": ""}, "'$contains' takes a non-empty string at $.where_document.$contains"),
        ({"$contains": 1}, "'$contains' takes a non-empty string at $.where_document.$contains"),
        ({"$regex": "x" * 1001}, "'$regex' takes at most 1000 characters at $.where_document.$regex"),
        ("text", "must be a JSON object at $.where_document"),
    ],
)
def test_an_invalid_text_filter_is_reported_with_its_path(given: object, message: str) -> None:
    with pytest.raises(InvalidFilter) as rejected:
        where_document.parse(given)
    assert rejected.value.detail == f"Invalid 'where_document' filter: {message}"


def _width(clause: object) -> int:
    """Maximum number of clauses in one `$and` or `$or`."""
    if isinstance(clause, dict):
        return max((_width(below) for below in clause.values()), default=0)
    if isinstance(clause, list):
        return max(len(clause), *(_width(below) for below in clause))
    return 0


@given(count=st.integers(1, MAX_CLAUSES))
def test_a_filter_for_chroma_never_has_too_many_siblings(count: int) -> None:
    assert _width(combine("$and", [{"a": index} for index in range(count)])) <= MAX_SIBLINGS
