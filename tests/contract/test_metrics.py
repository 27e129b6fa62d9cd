"""`GET /metrics`: what was asked, what became of it, and nothing of what documents hold."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import httpx

from contract.metrics import grown, samples


def documents(*ids: str) -> dict[str, object]:
    return {"documents": [{"id": name, "text": "canary", "embedding": [1, 2], "metadata": {"k": "v"}} for name in ids]}


def test_documents_written_are_counted_by_what_was_asked(http: httpx.Client, collection: str) -> None:
    before = samples(http)
    http.post(f"/collections/{collection}/documents", json=documents("a", "b"))
    http.put(f"/collections/{collection}/documents", json=documents("b"))
    http.post(f"/collections/{collection}/documents", json=documents("a"))
    after = samples(http)
    assert grown(before, after, 'ragstore_documents_written_total{kind="add"}') == 2
    assert grown(before, after, 'ragstore_documents_written_total{kind="upsert"}') == 1


def test_documents_deleted_are_counted(http: httpx.Client, collection: str) -> None:
    http.post(f"/collections/{collection}/documents", json=documents("a", "b"))
    before = samples(http)
    http.delete(f"/collections/{collection}/documents", params={"ids": ["a", "none"]})
    assert grown(before, samples(http), "ragstore_documents_deleted_total") == 1


def test_a_filtered_query_that_is_planned_reaches_chroma_without_its_filter(
    http: httpx.Client, collection: str
) -> None:
    http.post(f"/collections/{collection}/documents", json=documents(*(str(place) for place in range(30))))
    before = samples(http)
    http.post(f"/collections/{collection}/query", json={"query_embedding": [1, 2], "where": {"k": "v"}})
    after = samples(http)
    assert grown(before, after, 'ragstore_store_queries_total{filtered="yes",layer="asked"}') == 1
    assert grown(before, after, 'ragstore_store_queries_total{filtered="no",layer="planned"}') == 1


def test_writes_that_wait_together_leave_in_fewer_calls(http: httpx.Client, collection: str) -> None:
    before = samples(http)
    with ThreadPoolExecutor(24) as callers:
        list(
            callers.map(
                lambda place: http.post(f"/collections/{collection}/documents", json=documents(str(place))), range(96)
            )
        )
    after = samples(http)
    asked = grown(before, after, 'ragstore_store_parts_count{layer="asked",operation="write"}')
    merged = grown(before, after, 'ragstore_store_parts_count{layer="merged",operation="write"}')
    assert asked == 96
    assert merged < asked


def test_requests_are_counted_by_route_and_not_by_collection(http: httpx.Client, collection: str) -> None:
    http.get(f"/collections/{collection}")
    text = http.get("/metrics").text
    assert 'path="/collections/{collection_name}"' in text
    assert collection not in text


def test_nothing_of_what_documents_hold_is_shown(http: httpx.Client, collection: str) -> None:
    http.post(f"/collections/{collection}/documents", json=documents("a-canary-id"))
    assert "canary" not in http.get("/metrics").text
