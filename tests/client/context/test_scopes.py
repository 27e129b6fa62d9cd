"""Scopes: the filter of a session, and which scopes share a call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstore_client import InvalidConfiguration, Where
from ragstore_client.context import Scope, session_scopes
from ragstore_client.context._scopes import ScopedSearch, searches


def filters(scopes: list[Scope], session_id: str | None = "s-1") -> list[Where | None]:
    return [search.where for search in searches(scopes, session_id)]


@given(st.text(min_size=1))
def test_the_session_id_is_a_value_whatever_it_contains(session_id: str) -> None:
    assert filters([Scope(where={"session_id": "{session_id}"})], session_id) == [{"session_id": session_id}]


def test_the_session_id_is_replaced_at_any_depth() -> None:
    where: Where = {
        "$or": [{"session_id": {"$in": ["{session_id}", "GLOBAL"]}}, {"$and": [{"owner": "{session_id}"}, {"n": 1}]}]
    }
    assert filters([Scope(where=where)]) == [
        {"$or": [{"session_id": {"$in": ["s-1", "GLOBAL"]}}, {"$and": [{"owner": "s-1"}, {"n": 1}]}]}
    ]


@pytest.mark.parametrize(
    "where", [{"owner": "user-{session_id}"}, {"{session_id}": 1}, {"a": {"$in": ["x{session_id}"]}}]
)
def test_the_session_id_cannot_be_part_of_a_value_or_a_field(where: Where) -> None:
    with pytest.raises(InvalidConfiguration, match="session_id"):
        Scope(where=where)


def nested(depth: int) -> Where:
    return {"$and": [nested(depth - 1)]} if depth else {"owner": "{session_id}"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"where": [1]},
        {"where": "session"},
        {"where": {1: "a"}},
        {"where": {"a": {"$in": {"{session_id}"}}}},
        {"where": {"a": b"{session_id}"}},
        {"where": nested(200)},
        {"collections": 5},
        {"collections": [5]},
        {"collections": b"ab"},
        {"top_k": "5"},
        {"top_k": True},
        {"top_k": 2.5},
        {"name": 5},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_value_of_a_wrong_type_is_a_configuration_error(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidConfiguration, match=r"(of|in) a scope"):
        Scope(**wrong)  # type: ignore[arg-type]  # what this is about


def test_the_global_session_is_that_of_the_settings_unless_it_is_named() -> None:
    found = searches(session_scopes(), "s-1", "EVERYBODY")
    assert [search.where for search in found] == [{"session_id": {"$in": ["s-1", "EVERYBODY"]}}]
    found = searches(session_scopes(global_value="*"), "{global_session_id}", "EVERYBODY")
    assert [search.where for search in found] == [{"session_id": {"$in": ["{global_session_id}", "*"]}}]


@pytest.mark.parametrize("session_id", [None, ""])
def test_a_scope_that_needs_a_session_is_skipped_without_one(session_id: str | None) -> None:
    assert filters(session_scopes(["docs"]), session_id) == [{"session_id": "GLOBAL"}]


def test_scopes_of_one_collection_share_a_call_with_one_filter() -> None:
    assert searches(session_scopes(["docs"], field="chat", global_value="*"), "s-1") == [
        ScopedSearch(collections=("docs",), where={"chat": {"$in": ["s-1", "*"]}}, top_k=None, title="session + global")
    ]


def test_a_value_or_a_collection_that_is_named_twice_is_searched_once() -> None:
    assert searches(session_scopes(["docs", "docs"]), "GLOBAL") == [
        ScopedSearch(
            collections=("docs",), where={"session_id": {"$in": ["GLOBAL"]}}, top_k=None, title="session + global"
        )
    ]


def test_scopes_with_other_filters_share_a_call_by_or() -> None:
    scopes = [Scope(where={"session_id": "{session_id}"}), Scope(where={"public": True}), Scope(where={"a": 1, "b": 2})]
    assert filters(scopes) == [{"$or": [{"session_id": "s-1"}, {"public": True}, {"a": 1, "b": 2}]}]


def test_a_scope_without_a_filter_includes_the_others() -> None:
    assert filters([Scope(where={"session_id": "{session_id}"}), Scope()]) == [None]


def test_scopes_of_different_collections_or_with_a_top_k_are_calls_of_their_own() -> None:
    scopes = [Scope(collections=["a"]), Scope(collections=["b"]), Scope(collections=["a"], top_k=3)]
    assert [(search.collections, search.top_k) for search in searches(scopes, None)] == [
        (("a",), None),
        (("b",), None),
        (("a",), 3),
    ]


@pytest.mark.parametrize("top_k", [0, -1, 1001])
def test_the_top_k_of_a_scope_is_checked(top_k: int) -> None:
    with pytest.raises(InvalidConfiguration, match="1 to 1000"):
        Scope(top_k=top_k)


def test_a_single_string_is_not_a_list_of_collections() -> None:
    with pytest.raises(InvalidConfiguration, match="list of names"):
        Scope(collections="docs")
