"""Traces of the gateway: parts of a chat and steps of an ingestion, continued by store, providers and upstream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.gateway.chat.conftest import new_key
from tests.gateway.retrieval.conftest import Assisted
from tests.support.fake_inference import embedded, reranked
from tests.support.fake_upstream import fake_upstream
from tests.support.gateways import start_gateway
from tests.support.log_lines import log_line
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running
from tests.support.trace_collector import TraceCollector, attributes, header_recorder, trace_collector

pytestmark = pytest.mark.process

PARENT: Final = "00f067aa0ba902b7"
"""The span of a caller."""

CANARY: Final = "CANARY-TRACED"


@dataclass
class Traced:
    """A gateway with traces, in front of a store and providers that record headers."""

    assisted: Assisted
    collector: TraceCollector
    to_store: list[dict[str, str]]

    def spans(self, trace_id: str, *names: str) -> dict[str, Span]:
        """The spans of a trace by name, when all of some names are there."""

        def found() -> dict[str, Span]:
            return {each.name: each for each in self.collector.spans if each.trace_id.hex() == trace_id}

        self.collector.wait_for(lambda _: set(names) <= found().keys())
        return found()


@pytest.fixture(scope="module")
@starts_process
def traced(gateway: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    """A gateway with a base, an assistant with a reranking model, and traces. The shared gateway is its store."""
    folder: Path = tmp_path_factory.mktemp("traced")
    keys = {"root": new_key(folder / "keys", "root", "admin")}
    with fake_upstream() as upstream, trace_collector() as collector, header_recorder(gateway.url) as (store, headers):
        upstream.on("embed", embedded)
        upstream.on("rerank", reranked)
        environ = {
            "RAGSTORE_URL": store,
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "RAGSTORE_GATEWAY_KEYS_FILE": str(folder / "keys"),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }
        with running(start_gateway(folder, environ)) as served:
            assisted = Assisted(served, keys, folder, upstream)
            name = f"traced-{uuid4().hex}"
            provider = {"embeddingProvider": "tei", "embeddingParameters": {"baseUrl": upstream.url}}
            assisted.base(name, {"tea.txt": f"{CANARY} tea is hot"}, **provider)
            rerank = {"provider": "tei", "baseUrl": upstream.url}
            task = {"id": "answer", "enableWorkflowRag": True, "rerank": rerank}
            assisted.assistant("traced", workflow=[name], tasks=[task], query="rewrite")
            yield Traced(assisted, collector, headers)


@pytest.fixture(scope="module")
def chat(traced: Traced) -> tuple[str, str]:
    """A chat in a trace of its own: the trace, and the id of the request. The vector of a later one would be cached."""
    trace_id, request_id = uuid4().hex, uuid4().hex
    headers = {"traceparent": f"00-{trace_id}-{PARENT}-01", "X-Request-ID": request_id}
    messages = [{"role": "user", "content": f"{CANARY} what is hot?"}]
    body = {"model": "rag/traced", "messages": messages}
    response = traced.assisted.call("root", "POST", "/v1/chat/completions", json=body, headers=headers)
    assert response.headers["X-RAG-Sources"] == "1", response.text
    return trace_id, request_id


CHAT: Final = "POST /v1/chat/completions"
PARTS: Final = (
    "retrieval",
    "rewrite question",
    "embed question",
    "embedding request",
    "search base",
    "search vectors",
    "search keywords",
    "rerank",
    "upstream",
    "sqlite read",
)


def test_a_chat_has_a_span_for_each_of_its_parts(traced: Traced, chat: tuple[str, str]) -> None:
    trace_id, request_id = chat
    spans = traced.spans(trace_id, CHAT, *PARTS)
    assert spans[CHAT].parent_span_id.hex() == PARENT
    assert attributes(spans[CHAT])["request_id"] == request_id
    parents = {
        "retrieval": CHAT,
        "rewrite question": "retrieval",
        "search base": "retrieval",
        "rerank": "retrieval",
        "embed question": "search base",
        "embedding request": "embed question",
        "search vectors": "search base",
        "search keywords": "search base",
    }
    found = {each.span_id: name for name, each in spans.items()}
    assert {name: found.get(spans[name].parent_span_id) for name in parents} == parents
    assert attributes(spans["retrieval"])["sources"] == 1
    assert attributes(spans["search base"])["engine"] == "ragstore"
    assert attributes(spans["upstream"])["http.response.status_code"] == 200
    line = log_line(traced.assisted.served.log, "request", request_id=request_id)
    assert line["trace_id"] == trace_id


def test_store_providers_and_upstream_get_the_trace_and_the_id_of_the_request(
    traced: Traced, chat: tuple[str, str]
) -> None:
    trace_id, request_id = chat
    spans = traced.spans(trace_id, CHAT, *PARTS)
    by_target = {
        each.target: {name: each.header(name) for name in ("traceparent", "x-request-id")}
        for each in traced.assisted.upstream.requests
        if each.header("x-request-id") == [request_id]
    }
    assert {"/v1/chat/completions", "/v1/embed", "/v1/rerank"} <= by_target.keys()
    embedding, rerank = spans["embedding request"].span_id.hex(), spans["rerank"].span_id.hex()
    assert by_target["/v1/embed"]["traceparent"] == [f"00-{trace_id}-{embedding}-01"]
    assert by_target["/v1/rerank"]["traceparent"] == [f"00-{trace_id}-{rerank}-01"]
    (upstream,) = by_target["/v1/chat/completions"]["traceparent"]
    assert upstream.startswith(f"00-{trace_id}-")
    assert PARENT not in upstream
    store = [each for each in traced.to_store if each.get("x-request-id") == request_id]
    searching = spans["search vectors"].span_id.hex()
    assert f"00-{trace_id}-{searching}-01" in [each["traceparent"] for each in store]


def test_an_ingestion_has_a_trace_of_its_own_with_its_steps(traced: Traced) -> None:
    path = traced.assisted.created(
        "/ragstore/rags",
        {
            "name": f"steps-{uuid4().hex}",
            "embeddingProvider": "tei",
            "embeddingParameters": {"baseUrl": traced.assisted.upstream.url},
        },
    ).partition("?")[0]
    status = traced.assisted.ingested(path, "milk.txt", f"{CANARY} milk is cold")
    line = log_line(traced.assisted.served.log, "ingestion ended", ingestion=status["ingestionId"])
    steps = [f"ingestion {step}" for step in ("extract", "split", "embed", "write", "publish")]
    spans = traced.spans(line["trace_id"], "ingestion job", "embedding request", "sqlite write", *steps)
    job = spans["ingestion job"]
    assert attributes(job)["ingestions"] == status["ingestionId"]
    assert {spans[step].parent_span_id for step in steps} == {job.span_id}
    assert spans["embedding request"].parent_span_id == spans["ingestion embed"].span_id


def test_the_work_between_requests_and_jobs_makes_no_spans(traced: Traced, chat: tuple[str, str]) -> None:
    traced.spans(chat[0], CHAT)
    roots = {each.name for each in traced.collector.spans if not each.parent_span_id}
    assert not [name for name in roots if name.startswith("sqlite")]


def test_no_span_has_content(traced: Traced, chat: tuple[str, str]) -> None:
    traced.spans(chat[0], CHAT)
    assert not [body for body in traced.collector.bodies if b"CANARY" in body]
