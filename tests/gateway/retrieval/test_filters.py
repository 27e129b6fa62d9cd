"""The `where` language is one: the store and the gateway accept and reject the same filters, with the same words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias
from uuid import uuid4

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from ragstore.filters.grammar import MAX_CLAUSES, MAX_DEPTH, MAX_VALUES
from tests.support.filter_strategies import filters
from tests.support.problems import assert_problem
from tests.support.servers import Served

pytestmark = pytest.mark.process

Filter: TypeAlias = dict[str, Any]


def nested(levels: int) -> Filter:
    """A filter with levels of `$and`."""
    filter_: Filter = {"a": 1}
    for _ in range(levels):
        filter_ = {"$and": [filter_]}
    return filter_


WRONG: Final[list[Filter]] = [
    {"#x": 1},
    {"": 1},
    {"chroma:document": "a"},
    {"$or": [{"a": 1}, {"chroma:x": {"$ne": 1}}]},
    {"$not": {"a": 1}},
    {"$and": []},
    {"$and": {"a": 1}},
    {"$or": [{"a": 1}, 2]},
    {"a": None},
    {"a": [1]},
    {"a": {}},
    {"a": {"b": 1}},
    {"a": {"$like": "x"}},
    {"a": {"$in": []}},
    {"a": {"$in": [1, "1"]}},
    {"a": {"$nin": [True, 1]}},
    {"a": {"$gt": "1"}},
    {"a": {"$lte": True}},
    {"a": {"$contains": None}},
    {"a": 2**63},
    nested(MAX_DEPTH + 1),
    {f"k{n}": 1 for n in range(MAX_CLAUSES + 1)},
    {"a": {"$in": [str(n) for n in range(MAX_VALUES + 1)]}},
    {"a": {"$in": [n + 0.5 for n in range(MAX_VALUES // 2 + 1)]}},
]

ODD: Final[list[Filter]] = [
    {},
    {"$and": [{}]},
    {"$or": [{}] * (MAX_CLAUSES + 1)},
    {"a": {"$not_contains": 1}},
    {"x#": 1, "chroma": 1, "a.b": {"$ne": True}},
    {"a": {"$in": [1, 2.5], "$gt": -1}},
    nested(MAX_DEPTH),
]


class Both:
    """A collection of the store and a knowledge base of the gateway, both empty, in one process.

    Args:
        client: sends requests to the process.
    """

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        name = f"t-{uuid4().hex}"
        client.post("/collections", json={"name": name}).raise_for_status()
        self._collection = f"/collections/{name}"
        base = client.post("/ragstore/rags", json={"name": name})
        self._base = base.raise_for_status().headers["Location"].partition("?")[0]

    def store(self, where: Filter) -> httpx.Response:
        """The store's response to a filter."""
        return self._client.post(f"{self._collection}/documents/filter", json={"where": where})

    def gateway(self, where: Filter) -> httpx.Response:
        """The gateway's response to a question with a filter."""
        return self._client.post(f"{self._base}/query", json={"query": "tea", "where": where})


@pytest.fixture(scope="module")
def both(gateway: Served) -> Iterator[Both]:
    """A collection and a base."""
    with httpx.Client(base_url=gateway.url, timeout=30) as client:
        yield Both(client)


@pytest.mark.parametrize("where", WRONG, ids=lambda where: str(where)[:40])
def test_a_wrong_filter_is_the_same_400_of_the_store_and_of_the_gateway(both: Both, where: Filter) -> None:
    responses = (both.store(where), both.gateway(where))
    problems = [assert_problem(response, 400, "invalid_filter") for response in responses]
    for member in ("title", "detail", "errors"):
        assert problems[0][member] == problems[1][member]


@pytest.mark.parametrize("where", ODD, ids=lambda where: str(where)[:40])
def test_an_odd_filter_is_accepted_by_the_store_and_by_the_gateway(both: Both, where: Filter) -> None:
    assert (both.store(where).status_code, both.gateway(where).status_code) == (200, 200)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(where=filters)
def test_both_services_accept_any_filter_of_the_language(both: Both, where: Filter) -> None:
    assert (both.store(where).status_code, both.gateway(where).status_code) == (200, 200)
