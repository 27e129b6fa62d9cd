"""`GET /metrics`: requests, their results, and no content of documents."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from ragstore.kit.auth.keys import append_key, new_key
from ragstore.store.filter_planning import MAX_EXACT_MATCHES
from ragstore.store.key_scope import STORE_KEYS
from tests.support.documents import document
from tests.support.metric_samples import grown, samples
from tests.support.servers import Served, free_port, running, start_service

pytestmark = pytest.mark.process


def requests(before: dict[str, float], after: dict[str, float], method: str, path: str, status: int) -> float:
    """Number of requests, on which the counter and the histogram agree."""
    labels = f'{{method="{method}",path="{path}",status_code="{status}"}}'
    counted = grown(before, after, f"ragstore_requests_total{labels}")
    assert counted == grown(before, after, f"ragstore_request_duration_seconds_count{labels}")
    return counted


def documents(*ids: str) -> dict[str, object]:
    return {"documents": [{"id": name, "text": "canary", "embedding": [1, 2], "metadata": {"k": "v"}} for name in ids]}


# -- requests -----------------------------------------------------------------------------------


def test_requests_are_counted_by_route_and_status_and_not_by_collection(http: httpx.Client, collection: str) -> None:
    before = samples(http)
    http.get(f"/collections/{collection}")
    http.get("/collections/nobody-knows")
    after = samples(http)
    assert requests(before, after, "GET", "/collections/{collection_name}", 200) == 1
    assert requests(before, after, "GET", "/collections/{collection_name}", 404) == 1
    assert collection not in http.get("/metrics").text


def test_a_request_without_a_route_is_counted(http: httpx.Client) -> None:
    before = samples(http)
    http.get("/no/such/path")
    http.patch("/collections")
    after = samples(http)
    assert requests(before, after, "GET", "unrouted", 404) == 1
    assert requests(before, after, "PATCH", "unrouted", 405) == 1


def test_a_scan_of_paths_and_methods_makes_no_new_series(http: httpx.Client, collection: str) -> None:
    http.request("BREW", "/pot")
    http.get("/path-0")
    http.get(f"/collections/{collection}/documents/none-0")
    http.get("/collections/nobody-0")
    before = samples(http).keys()
    for number in range(50):
        http.request(f"BREW{number}", f"/pot/{number}")
        http.get(f"/path-{number}?{number}=1")
        http.get(f"/collections/{collection}/documents/none-{number}")
        http.get(f"/collections/nobody-{number}")
    assert samples(http).keys() == before


def test_a_request_that_is_not_http_is_counted(http: httpx.Client, service: Served) -> None:
    before = samples(http)
    with socket.create_connection(("127.0.0.1", int(service.url.rpartition(":")[2]))) as connection:
        connection.sendall(b"no http at all\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 400"
    name = 'ragstore_requests_total{method="other",path="unrouted",status_code="400"}'
    assert grown(before, samples(http), name) == 1


def test_requests_in_flight_are_reported_with_their_limit(http: httpx.Client) -> None:
    found = samples(http)
    assert found["ragstore_requests_in_progress"] >= 1
    assert found["ragstore_requests_in_progress_limit"] == 512


def test_the_build_is_reported(http: httpx.Client) -> None:
    version = http.get("/").json()["version"]
    (build,) = [name for name in samples(http) if name.startswith("ragstore_build_info")]
    assert f'version="{version}"' in build


# -- the store ----------------------------------------------------------------------------------


def test_documents_written_are_counted_by_operation(http: httpx.Client, collection: str) -> None:
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


def test_time_in_chroma_is_reported_by_operation(http: httpx.Client, collection: str) -> None:
    before = samples(http)
    http.put(f"/collections/{collection}/documents", json=documents(*(str(number) for number in range(40))))
    http.post(f"/collections/{collection}/query", json={"query_embedding": [1, 2]})
    http.post(f"/collections/{collection}/query", json={"query_embedding": [1, 2]})
    after = samples(http)
    for operation in ("upsert", "query"):
        count = f'ragstore_chroma_duration_seconds_count{{operation="{operation}"}}'
        seconds = f'ragstore_chroma_duration_seconds_sum{{operation="{operation}"}}'
        assert grown(before, after, count) == {"upsert": 1, "query": 2}[operation]
        assert grown(before, after, seconds) > 0
    assert after["ragstore_chroma_calls_in_progress"] == 0


@pytest.mark.parametrize(
    ("where", "plan"),
    [
        ({"where": {"kind": "none"}}, "exact"),
        ({"where": {"kind": "common"}}, "fetch"),
        ({"where": {"kind": "far"}}, "fell_back"),
        ({"where": {"kind": "rare"}}, "widened"),
        ({"where_document": {"$contains": "text"}}, "unplanned"),
    ],
    ids=["exact", "fetch", "fell_back", "widened", "unplanned"],
)
def test_filtered_queries_are_counted_by_how_they_were_planned(
    http: httpx.Client, collection: str, where: dict[str, object], plan: str
) -> None:
    # Ten rare ones are among the 150 nearest, and two among the first 32. More match than are compared exactly.
    kinds = ["rare" if number < 2 or 60 <= number < 68 else "common" for number in range(300)]
    kinds += ["common"] * MAX_EXACT_MATCHES + ["far", "rare"] * (MAX_EXACT_MATCHES + 1)
    added = [document(str(index), embedding=(1.0, index / 100), kind=kind) for index, kind in enumerate(kinds)]
    http.put(f"/collections/{collection}/documents", json={"documents": added}).raise_for_status()
    # The first query of a filter searches the ids of its matches.
    http.post(f"/collections/{collection}/query", json={"query_embedding": [1, 0], **where}).raise_for_status()
    before = samples(http)
    http.post(f"/collections/{collection}/query", json={"query_embedding": [1, 0], **where}).raise_for_status()
    after = samples(http)
    plans = {name: grown(before, after, name) for name in after if name.startswith("ragstore_filtered_queries_total")}
    assert {name: count for name, count in plans.items() if count} == {
        f'ragstore_filtered_queries_total{{plan="{plan}"}}': 1
    }
    assert grown(before, after, 'ragstore_queries_total{filtered="yes"}') == 1


def test_batched_writes_are_reported_with_their_number_and_their_delays(http: httpx.Client, collection: str) -> None:
    before = samples(http)
    with ThreadPoolExecutor(24) as callers:
        list(
            callers.map(
                lambda index: http.post(
                    f"/collections/{collection}/documents", json=documents(str(index), f"b{index}")
                ),
                range(96),
            )
        )
    after = samples(http)
    calls = grown(before, after, 'ragstore_coalesced_calls_count{kind="write"}')
    assert calls < 96
    assert grown(before, after, 'ragstore_coalesced_calls_sum{kind="write"}') == 96
    assert grown(before, after, "ragstore_coalesced_documents_count") == calls
    assert grown(before, after, "ragstore_coalesced_documents_sum") == 192
    assert grown(before, after, 'ragstore_coalescing_wait_seconds_count{kind="write"}') == 96
    assert grown(before, after, 'ragstore_coalescing_wait_seconds_sum{kind="write"}') > 0


def test_queues_are_empty_without_pending_requests(http: httpx.Client) -> None:
    found = samples(http)
    queues = ("queued_writes", "queued_bytes", "queued_queries")
    assert [found[f"ragstore_{queue}"] for queue in queues] == [0, 0, 0]
    assert found["ragstore_queued_writes_limit"] == 1024
    assert found["ragstore_queued_bytes_limit"] == 256 * 1024 * 1024


def test_no_content_of_documents_is_in_the_metrics(http: httpx.Client, collection: str) -> None:
    http.post(f"/collections/{collection}/documents", json=documents("a-canary-id"))
    http.post(f"/collections/{collection}/query", json={"query_embedding": [1, 2], "where": {"k": "canary"}})
    assert "canary" not in http.get("/metrics").text


# -- a full service, and an unavailable Chroma --------------------------------------------------


@pytest.mark.process
def test_rejections_of_a_full_service_are_counted_by_status_and_reason(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    environ = {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{free_port()}", "RAGSTORE_MAX_REQUESTS": "1"}
    with (
        running(start_service(tmp_path_factory.mktemp("full"), environ, ready=False)) as served,
        httpx.Client(base_url=served.url) as http,
        socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2]))) as slow,
    ):
        # One request with an incomplete body occupies the only slot.
        head = "POST /collections HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9"
        slow.sendall(f"{head}\r\n\r\n".encode())
        assert 503 in (http.get("/").status_code for _ in range(500))
        found = samples(http)
        assert found['ragstore_requests_total{method="GET",path="unrouted",status_code="503"}'] == 1
        assert found['ragstore_refusals_total{reason="requests"}'] == 1
        assert found["ragstore_requests_in_progress"] == 2


@pytest.mark.process
def test_an_unavailable_chroma_shows_in_failures_retries_and_the_circuit(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    environ = {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{free_port()}"}
    with (
        running(start_service(tmp_path_factory.mktemp("away"), environ, ready=False)) as served,
        httpx.Client(base_url=served.url) as http,
    ):
        assert samples(http)['ragstore_circuits{state="closed"}'] == 1
        with ThreadPoolExecutor(5) as callers:
            list(callers.map(lambda _: http.get("/collections"), range(5)))
        http.get("/collections")
        found = samples(http)
    assert found['ragstore_circuits{state="open"}'] == 1
    assert found['ragstore_circuits{state="closed"}'] == 0
    assert found["ragstore_circuit_openings_total"] >= 1
    assert found["ragstore_chroma_retries_total"] > 0
    assert found['ragstore_chroma_failures_total{reason="unavailable"}'] > 5
    assert found['ragstore_refusals_total{reason="circuit_open"}'] >= 1


def test_gauges_of_several_chroma_databases_add_up(tmp_path_factory: pytest.TempPathFactory, chroma: Served) -> None:
    folder = tmp_path_factory.mktemp("databases")
    environ = {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_KEYS_FILE": str(folder / "keys")}
    plain = {}
    for name in ("one", "two"):
        plain[name], key = new_key(name, STORE_KEYS, role="reader", database=f"metrics_{name}")
        append_key(environ["RAGSTORE_KEYS_FILE"], key, STORE_KEYS)
    with running(start_service(folder, environ, ready=False)) as served:
        for name in plain:
            httpx.get(f"{served.url}/collections", headers={"X-API-Key": plain[name]}).raise_for_status()
        with httpx.Client(base_url=served.url, headers={"X-API-Key": plain["one"]}) as http:
            found = samples(http)
    # The service's own database, and one for each key.
    assert found['ragstore_circuits{state="closed"}'] == 3
    assert found["ragstore_queued_writes_limit"] == 3 * 1024
