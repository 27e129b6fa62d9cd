"""Traces: one span per request and per call to Chroma, sent to a real collector; none without configuration."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.documents import document, documents_path
from tests.support.servers import Served, running, start_service
from tests.support.trace_collector import TraceCollector, attributes, header_recorder, trace_collector

CANARY = "Zweig-6071"
CLIENT_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
"""The id of the client's trace."""
PARENT = "00f067aa0ba902b7"
TRACEPARENT = {"traceparent": f"00-{CLIENT_TRACE}-{PARENT}-01"}


def traced(url: str, chroma: str, **environ: str) -> dict[str, str]:
    """The environment of a service that sends its spans to a collector with a short delay."""
    return {
        "RAGSTORE_CHROMA_URL": chroma,
        "RAGSTORE_CHROMA_DATABASE": "traces",
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        **environ,
    }


@pytest.fixture(scope="module")
def collector() -> Iterator[TraceCollector]:
    with trace_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def to_chroma(chroma: Served) -> Iterator[tuple[str, list[dict[str, str]]]]:
    with header_recorder(chroma.url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def traced_service(
    collector: TraceCollector, to_chroma: tuple[str, list[dict[str, str]]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    environ = traced(collector.url, to_chroma[0], OTEL_INSTRUMENTATION_HTTP_CAPTURE_HEADERS_SERVER_REQUEST=".*")
    with running(start_service(tmp_path_factory.mktemp("traced"), environ)) as served:
        yield served


@pytest.fixture(scope="module")
def traced_http(traced_service: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=traced_service.url, timeout=30, limits=httpx.Limits(keepalive_expiry=2)) as client:
        yield client


@pytest.fixture
def traced_collection(traced_http: httpx.Client, name: str) -> str:
    traced_http.post("/collections", json={"name": name}).raise_for_status()
    traced_http.put(documents_path(name), json={"documents": [document("a", part="x")]}).raise_for_status()
    return name


def span_of_request(
    collector: TraceCollector, request_id: str, http: httpx.Client, method: str, path: str, **sent: object
) -> Span:
    """Send a request in a trace of its own, and wait for its span."""
    http.request(method, path, headers={"traceparent": f"00-{request_id}-{PARENT}-01"}, **sent)  # type: ignore[arg-type]  # keyword arguments of several types
    return next(
        span
        for span in collector.wait_for(lambda spans: any(is_server(span, request_id) for span in spans))
        if is_server(span, request_id)
    )


def is_server(span: Span, trace_id: str) -> bool:
    return span.kind == Span.SPAN_KIND_SERVER and span.trace_id.hex() == trace_id


def children(spans: list[Span], parent: Span) -> list[Span]:
    return [span for span in spans if span.parent_span_id == parent.span_id]


def test_a_requests_span_continues_the_clients_trace_and_is_named_after_its_route(
    collector: TraceCollector, traced_http: httpx.Client, traced_collection: str
) -> None:
    span = span_of_request(collector, uuid4().hex, traced_http, "GET", f"/collections/{traced_collection}")
    assert span.parent_span_id.hex() == PARENT
    assert span.name == "GET /collections/{collection_name}"
    assert attributes(span)["http.route"] == "/collections/{collection_name}"
    assert re.fullmatch(r"[0-9a-f]{32}", str(attributes(span)["request_id"]))
    assert attributes(span)["http.response.status_code"] == 200


def test_the_call_to_chroma_is_a_child_span(
    collector: TraceCollector, traced_http: httpx.Client, traced_collection: str
) -> None:
    span = span_of_request(
        collector, uuid4().hex, traced_http, "GET", documents_path(traced_collection), params={"total": "false"}
    )
    (child,) = [child for child in children(collector.spans, span) if child.name == "chroma get"]
    assert child.kind == Span.SPAN_KIND_CLIENT
    assert attributes(child)["db.system.name"] == "chroma"
    assert attributes(child)["db.operation.name"] == "get"
    assert len(str(attributes(child)["ragstore.collection.id"])) == 36


def test_a_batch_of_one_write_has_chromas_spans_as_its_children(
    collector: TraceCollector, traced_http: httpx.Client, traced_collection: str
) -> None:
    body = {"documents": [document("b"), document("c")]}
    span = span_of_request(collector, uuid4().hex, traced_http, "PUT", documents_path(traced_collection), json=body)
    (upsert,) = [child for child in children(collector.spans, span) if child.name == "chroma upsert"]
    assert attributes(upsert)["ragstore.count"] == 2


def test_the_call_to_chromas_server_continues_the_trace(
    collector: TraceCollector,
    traced_http: httpx.Client,
    traced_collection: str,
    to_chroma: tuple[str, list[dict[str, str]]],
) -> None:
    trace_id = uuid4().hex
    span = span_of_request(
        collector, trace_id, traced_http, "GET", documents_path(traced_collection), params={"total": "false"}
    )
    (child,) = [child for child in children(collector.spans, span) if child.name == "chroma get"]
    assert f"00-{trace_id}-{child.span_id.hex()}-01" in [headers.get("traceparent") for headers in to_chroma[1]]


def test_the_span_of_a_batch_is_linked_with_each_of_its_requests(
    collector: TraceCollector, traced_http: httpx.Client, traced_collection: str
) -> None:
    def write(number: int) -> None:
        headers = {"traceparent": f"00-{uuid4().hex}-{PARENT}-01"}
        body = {"documents": [document(str(number))]}
        traced_http.put(documents_path(traced_collection), json=body, headers=headers).raise_for_status()

    with ThreadPoolExecutor(16) as clients:
        list(clients.map(write, range(64)))
    spans = collector.wait_for(
        lambda spans: sum(attributes(span).get("url.path") == documents_path(traced_collection) for span in spans) >= 65
    )
    merged = [
        span
        for span in spans
        if span.name == "merged write" and attributes(span)["db.collection.name"] == traced_collection
    ]
    assert merged
    by_id = {span.span_id: span for span in spans}
    for span in merged:
        linked = [by_id[link.span_id] for link in span.links]
        assert attributes(span)["ragstore.calls"] == len(linked) + 1
        assert by_id[span.parent_span_id].kind == Span.SPAN_KIND_SERVER
        assert all(span.span_id in [link.span_id for link in other.links] for other in linked)
        assert "chroma upsert" in [child.name for child in children(spans, span)]


def test_trace_and_span_are_in_the_log_lines_of_the_request(
    collector: TraceCollector, traced_http: httpx.Client, traced_service: Served, traced_collection: str
) -> None:
    trace_id = uuid4().hex
    span = span_of_request(collector, trace_id, traced_http, "GET", f"/collections/{traced_collection}")
    traced_http.get("/health/live")
    lines = [json.loads(line) for line in traced_service.log.read_text().splitlines() if trace_id in line]
    assert [(line["event"], line["span_id"]) for line in lines] == [("request", span.span_id.hex())]


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready", "/metrics"])
def test_probes_and_metrics_are_not_traced(collector: TraceCollector, traced_http: httpx.Client, path: str) -> None:
    trace_id = uuid4().hex
    assert traced_http.get(path, headers={"traceparent": f"00-{trace_id}-{PARENT}-01"}).is_success
    span_of_request(collector, uuid4().hex, traced_http, "GET", "/")
    assert not [span for span in collector.spans if span.trace_id.hex() == trace_id]


def test_no_span_contains_content(collector: TraceCollector, traced_http: httpx.Client, traced_collection: str) -> None:
    secret = {"part": CANARY, "n": 7316.40625}
    path, headers = documents_path(traced_collection), {"X-API-Key": CANARY, "Authorization": f"Bearer {CANARY}"}
    filters = {"where": json.dumps({"part": CANARY}), "where_document": json.dumps({"$contains": CANARY})}
    good = document("z", text=CANARY, embedding=[7316.40625, 1], **secret)
    bodies = [
        ("PUT", path, {"documents": [good]}),
        ("POST", path, {"documents": [good]}),
        ("POST", path, {"documents": [{**good, "metadata": {"part": {"deep": CANARY}}}]}),
        ("POST", f"/collections/{traced_collection}/query", {"query_embedding": [7316.40625, 1], "where": secret}),
        ("POST", f"/collections/{traced_collection}/query", {"query_embedding": [7316.40625, 1, 2]}),
        ("PUT", f"/collections/{traced_collection}/metadata", {"metadata": {"about": CANARY}}),
    ]
    for method, where, body in bodies:
        traced_http.request(method, where, json=body, headers=headers)
    traced_http.get(path, params=filters, headers=headers)
    traced_http.get(path, params={"where": CANARY}, headers=headers)
    traced_http.delete(path, params={"where": json.dumps({"part": CANARY})}, headers=headers)
    last = span_of_request(collector, uuid4().hex, traced_http, "GET", "/")
    assert last.name == "GET /"
    sent = b"".join(collector.bodies)
    assert b"chroma upsert" in sent
    assert CANARY.encode() not in sent
    assert b"7316.4" not in sent
    assert not [event for span in collector.spans for event in span.events]


def test_traces_contain_the_name_and_version_of_the_service(
    collector: TraceCollector, traced_http: httpx.Client
) -> None:
    span_of_request(collector, uuid4().hex, traced_http, "GET", "/")
    assert collector.resource["service.name"] == "ragstore"
    assert collector.resource["service.version"] == traced_http.get("/").json()["version"]


def test_calls_to_embedded_chroma_are_child_spans(tmp_path: Path, collector: TraceCollector) -> None:
    with (
        running(start_service(tmp_path, traced(collector.url, ""))) as served,
        httpx.Client(base_url=served.url) as http,
    ):
        span = span_of_request(collector, uuid4().hex, http, "GET", "/collections")
    assert "chroma list_collections" in [child.name for child in children(collector.spans, span)]


# -- tracing off, and an unavailable collector ----------------------------------------------------


@pytest.mark.parametrize("off", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}], ids=str)
def test_nothing_is_sent_when_opentelemetry_is_switched_off(
    tmp_path: Path, chroma: Served, off: dict[str, str]
) -> None:
    with trace_collector() as collector:
        with running(start_service(tmp_path, traced(collector.url, chroma.url, **off))) as served:
            assert httpx.get(f"{served.url}/collections", headers=TRACEPARENT).is_success
            assert served.stop() == 0
        assert collector.bodies == []
        assert CLIENT_TRACE not in served.log.read_text()


def test_opentelemetry_is_not_imported_without_configuration(tmp_path: Path, chroma: Served) -> None:
    code = (
        "import sys; from ragstore.app import create_app; from ragstore.settings import load; create_app(load()); "
        "print([name for name in sys.modules if name.partition('.')[0] == 'opentelemetry'])"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("RAGSTORE_", "OTEL_"))}
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**environ, "RAGSTORE_CHROMA_URL": chroma.url},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "[]\n"


@pytest.mark.parametrize("fault", ["refusing", "silent"])
def test_requests_and_the_shutdown_do_not_wait_for_an_unavailable_collector(
    tmp_path: Path, chroma: Served, fault: str
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if fault == "silent":
            listener.listen(64)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with running(start_service(tmp_path, traced(url, chroma.url))) as served:
            with httpx.Client(base_url=served.url) as http:
                # Each request ends within the client's timeout while several batches of spans are pending.
                assert {http.get("/collections", timeout=5).status_code for _ in range(100)} == {200}
            # By default, the exporter would wait 30 s for the collector; an orchestrator kills sooner.
            served.process.terminate()
            assert served.process.wait(timeout=15) == 0
