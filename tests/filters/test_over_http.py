"""The `where` language through the running service, against an independent oracle."""

from __future__ import annotations

import json
from uuid import uuid4

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.filter_oracle import Json, Value, selects
from tests.support.filter_strategies import filters, metadatas

pytestmark = pytest.mark.process


def _load(http: httpx.Client, metadatas: list[dict[str, Value]]) -> str:
    name = f"t-{uuid4().hex}"
    http.post("/collections", json={"name": name}).raise_for_status()
    documents = [
        {"id": str(index), "text": f"text {index}", "embedding": [1, index], "metadata": metadata}
        for index, metadata in enumerate(metadatas)
    ]
    http.post(f"/collections/{name}/documents", json={"documents": documents}).raise_for_status()
    return name


def _ids(response: httpx.Response) -> list[str]:
    response.raise_for_status()
    listed = response.json()
    assert listed["count"] == listed["total"] == len(listed["documents"])
    return [document["id"] for document in listed["documents"]]


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(documents=st.lists(metadatas, min_size=1, max_size=30), tried_filters=st.lists(filters, min_size=5, max_size=12))
def test_a_filter_in_the_url_and_in_a_body_selects_the_documents_of_the_oracle(
    http: httpx.Client, documents: list[dict[str, Value]], tried_filters: list[Json]
) -> None:
    name = _load(http, documents)
    for filtered in tried_filters:
        meant = [str(index) for index, metadata in enumerate(documents) if selects(filtered, metadata)]
        by_url = http.get(f"/collections/{name}/documents", params={"where": json.dumps(filtered)})
        assert _ids(by_url) == meant, filtered
        by_body = http.post(f"/collections/{name}/documents/filter", json={"where": filtered})
        assert _ids(by_body) == meant, filtered
    http.delete(f"/collections/{name}").raise_for_status()


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(documents=st.lists(metadatas, min_size=1, max_size=30), tried_filters=st.lists(filters, min_size=3, max_size=6))
def test_a_query_and_a_delete_select_the_same_documents_by_a_filter(
    http: httpx.Client, documents: list[dict[str, Value]], tried_filters: list[Json]
) -> None:
    name = _load(http, documents)
    left = set(range(len(documents)))
    for filtered in tried_filters:
        meant = {index for index in left if selects(filtered, documents[index])}
        question = {"query_embedding": [1, 1], "top_k": 1000, "where": filtered}
        found = http.post(f"/collections/{name}/query", json=question).raise_for_status().json()["results"]
        assert {int(hit["id"]) for hit in found} == meant, filtered
        if any(filtered.values()):
            deletion = {"where": {"$and": [{"a": {"$ne": "never stored"}}, filtered]}}
            deleted = http.post(f"/collections/{name}/documents/delete", json=deletion).raise_for_status().json()
            assert deleted["count"] == len(meant), filtered
            left -= meant
    http.delete(f"/collections/{name}").raise_for_status()
