"""Filters of configurations: their variables, and what a request without one of them finds."""

from __future__ import annotations

from typing import Any

import pytest

from ragstore.kit.errors import InvalidRequest
from ragstore_gateway.api.request_variables import NO_VARIABLES, RequestVariables, read_session
from ragstore_gateway.configurations.where_template import MAX_COMPARISONS, MAX_LEVELS, check_where, joined

OWN = {"$or": [{"session_id": "{session_id}"}, {"session_id": "GLOBAL"}]}
S1 = RequestVariables(session_id="s-1", user="ann", key="web")


def test_a_variable_is_replaced_by_the_value_of_the_request() -> None:
    assert joined([OWN], S1) == {"$or": [{"session_id": "s-1"}, {"session_id": "GLOBAL"}]}
    assert joined([{"owner": {"$in": ["{user}", "{key}"]}}], S1) == {"owner": {"$in": ["ann", "web"]}}


def test_a_value_is_only_a_value_whatever_it_contains() -> None:
    given = RequestVariables(session_id='{"$ne": ""}', user="{key}", key="web")
    assert joined([{"a": "{session_id}", "b": "{user}"}], given) == {"a": '{"$ne": ""}', "b": "{key}"}


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (OWN, {"$or": [{"session_id": "GLOBAL"}]}),
        ({"session_id": "{session_id}"}, None),
        ({"session_id": {"$ne": "{session_id}"}}, None),
        ({"session_id": {"$nin": ["{session_id}", "s-2"]}}, None),
        ({"session_id": {"$in": ["{session_id}", "GLOBAL"]}}, {"session_id": {"$in": ["GLOBAL"]}}),
        ({"session_id": {"$in": ["{session_id}"]}}, None),
        ({"$and": [{"year": 2026}, {"session_id": "{session_id}"}]}, None),
        ({"$or": [{"session_id": "{session_id}"}, {"owner": "{user}"}]}, None),
        ({"year": 2026, "session_id": "{session_id}"}, None),
        ({}, {}),
    ],
)
def test_a_comparison_with_an_absent_variable_matches_nothing(
    where: dict[str, Any], found: dict[str, Any] | None
) -> None:
    assert joined([where], NO_VARIABLES) == found


def test_several_filters_must_all_hold() -> None:
    assert joined([{}, {"year": 2026}, {"owner": "{user}"}], S1) == {"$and": [{"year": 2026}, {"owner": "ann"}]}
    assert joined([{"year": 2026}, {"owner": "{user}"}], NO_VARIABLES) is None


@pytest.mark.parametrize(
    ("where", "path"),
    [
        ({"a": "{sesion_id}"}, "$.where.a"),
        ({"$or": [{"a": 1}, {"b": {"$in": ["x", "{owner}"]}}]}, "$.where.$or[1].b.$in[1]"),
        ({"a": "team-{user}"}, "$.where.a"),
        ({"{user}": "a"}, "$.where.{user}"),
        ({"a": {"$gt": "{user}"}}, "$.where.a.$gt"),
        ({"a": {"$has": 1}}, "$.where.a.$has"),
        ({"a": {"$in": [*map(str, range(MAX_COMPARISONS)), "{user}"]}}, "$.where"),
    ],
)
def test_a_filter_that_cannot_work_is_rejected_with_its_path(where: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        check_where(where, "$.where")
    assert [each.path for each in error.value.field_errors] == [path]


def test_a_filter_has_a_maximum_of_levels() -> None:
    where: dict[str, Any] = {"a": 1, "b": 2}
    for _ in range(MAX_LEVELS - 1):
        where = {"$or": [where, {"c": 3}]}
    check_where(where, "$.where")
    with pytest.raises(InvalidRequest):
        check_where({"$or": [where, {"c": 3}]}, "$.where")


def test_texts_with_braces_that_name_no_variable_are_values() -> None:
    check_where({"a": "{x y}", "b": "f{2}"}, "$.where")
    assert joined([{"a": "{x y}"}], S1) == {"a": "{x y}"}


@pytest.mark.parametrize(
    ("headers", "session"),
    [
        ([], "body"),
        ([(b"x-session-id", b"s-1")], "s-1"),
        ([(b"x-session-id", b"")], "body"),
        ([(b"x-session-id", b"s-1"), (b"x-session-id", b"s-1")], "s-1"),
        ([(b"x-session-id", "süd".encode())], "süd"),
    ],
)
def test_the_header_is_the_session_before_the_body(headers: list[tuple[bytes, bytes]], session: str) -> None:
    assert read_session(headers, "web", "header", "body") == session
    assert read_session(headers, "web", "key", "body") == "web"


@pytest.mark.parametrize("values", [[b"s-1", b"s-2"], [b"\xff"], [b"s" * 257]])
def test_a_session_that_is_not_one_name_is_400(values: list[bytes]) -> None:
    with pytest.raises(InvalidRequest) as error:
        read_session([(b"x-session-id", value) for value in values], "", "header")
    assert error.value.field_errors[0].path == "X-Session-Id"
