"""Faults of retrieval: a chat continues without context, with the reason, or is rejected where a setting says so."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.gateway.chat.test_faults import PLAIN, error_of
from tests.gateway.chat.test_rag import QUESTION, ask
from tests.support.fake_upstream import FakeUpstream
from tests.support.gateways import start_gateway
from tests.support.ledger import wait_until
from tests.support.metric_samples import grown, samples
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, free_port, running

pytestmark = pytest.mark.process


def test_a_caller_that_leaves_during_retrieval_costs_no_upstream_request(
    slow_store: httpx.Client, upstream: FakeUpstream
) -> None:
    before = len(upstream.chats())
    with pytest.raises(httpx.ReadTimeout):
        slow_store.post("/v1/chat/completions", json={**PLAIN, "model": "rag/m"}, timeout=0.6)
    time.sleep(2.5)
    assert len(upstream.chats()) == before


def test_a_store_that_hangs_delays_a_chat_no_longer_than_the_deadline(
    slow_store: httpx.Client, upstream: FakeUpstream
) -> None:
    response = ask(slow_store, QUESTION, "rag/m")
    assert response.status_code == 200
    assert response.headers["x-rag-reason"] == "timeout"
    assert upstream.last.json == PLAIN


def test_a_store_that_is_down_means_no_context_with_a_reason(storeless: httpx.Client, upstream: FakeUpstream) -> None:
    before = samples(storeless)
    response = ask(storeless, QUESTION, "rag/m")
    assert response.status_code == 200
    assert response.headers["x-rag-reason"] == "failed"
    assert upstream.last.json == PLAIN
    name = 'ragstore_gateway_retrievals_total{outcome="failed"}'
    assert grown(before, samples(storeless), name) == 1


async def test_the_reason_of_a_failed_retrieval_is_logged_without_the_question(
    storeless: httpx.Client, storeless_gateway: Served
) -> None:
    ask(storeless, "canary-question of a kettle", "rag/m")
    await wait_until(lambda: '"event": "retrieval failed"' in storeless_gateway.log.read_text(), 20)
    assert "canary-question" not in storeless_gateway.log.read_text()


async def test_while_the_embedding_server_is_down_a_chat_has_no_context_with_a_reason(
    embedderless: EmbedderlessGateways, upstream: FakeUpstream
) -> None:
    client, served = embedderless.lenient, embedderless.served
    before, logged = samples(client), len(served.log.read_text())
    response = ask(client, f"{QUESTION} canary-question", "rag/m")
    assert response.status_code == 200
    assert response.headers["x-rag-reason"] == "failed"
    assert response.headers["x-rag-sources"] == "0"
    assert upstream.last.json["messages"] == [{"role": "user", "content": f"{QUESTION} canary-question"}]
    assert grown(before, samples(client), 'ragstore_gateway_retrievals_total{outcome="failed"}') == 1
    await wait_until(lambda: "retrieval failed" in served.log.read_text()[logged:], 20)
    log = served.log.read_text()[logged:]
    lines = [json.loads(line) for line in log.splitlines() if "retrieval failed" in line]
    assert [(line["event"], line["reason"]) for line in lines] == [("retrieval failed", "failed")]
    assert "canary-question" not in log


def test_while_the_embedding_server_is_down_a_question_whose_vector_is_cached_has_its_context(
    embedderless: EmbedderlessGateways,
) -> None:
    assert int(ask(embedderless.lenient, QUESTION, "rag/m").headers["x-rag-sources"]) > 0


def test_with_the_setting_fail_a_chat_is_503_while_the_embedding_server_is_down(
    embedderless: EmbedderlessGateways, upstream: FakeUpstream
) -> None:
    before = len(upstream.chats())
    assert error_of(ask(embedderless.strict, QUESTION, "rag/m"), 503)["code"] == "retrieval_failed"
    assert len(upstream.chats()) == before
    assert ask(embedderless.strict, QUESTION, "m").status_code == 200


@pytest.fixture(scope="module")
@starts_process
def storeless_gateway(upstream: FakeUpstream, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A gateway whose store does not run."""
    environ = {
        "RAGSTORE_URL": f"http://127.0.0.1:{free_port()}",
        "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
        "RAG_TIMEOUT_SECONDS": "3",
    }
    with running(start_gateway(tmp_path_factory.mktemp("storeless"), environ, ready=False)) as served:
        yield served


@pytest.fixture
def storeless(storeless_gateway: Served) -> Any:
    """A client of that gateway."""
    with httpx.Client(base_url=storeless_gateway.url, timeout=30) as client:
        yield client


@dataclass
class EmbedderlessGateways:
    """Gateways whose embedding server was killed.

    Attributes:
        lenient: a client of one that continues without context; it has embedded `QUESTION` before.
        strict: a client of one that rejects chats then.
        served: the process of the lenient one.
    """

    lenient: httpx.Client
    strict: httpx.Client
    served: Served


@pytest.fixture(scope="module")
@starts_process
def embedderless(
    upstream: FakeUpstream, chat_gateway: Served, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbedderlessGateways]:
    """Gateways whose embedding server, another gateway, was killed."""
    environ = {"RAGSTORE_URL": chat_gateway.url}
    with running(start_gateway(tmp_path_factory.mktemp("embedder"), environ)) as embedder:
        environ |= {
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "EMBEDDER_BASE": embedder.url,
            "RAG_TIMEOUT_SECONDS": "30",
        }
        fail = {"RAGSTORE_GATEWAY_ON_RETRIEVAL_FAILURE": "fail"}
        with (
            running(start_gateway(tmp_path_factory.mktemp("lenient"), environ)) as served,
            running(start_gateway(tmp_path_factory.mktemp("strict"), environ | fail)) as rejecting,
            httpx.Client(base_url=served.url, timeout=60) as lenient,
            httpx.Client(base_url=rejecting.url, timeout=60) as strict,
        ):
            assert int(ask(lenient, QUESTION, "rag/m").headers["x-rag-sources"]) > 0
            embedder.process.kill()
            embedder.process.wait()
            yield EmbedderlessGateways(lenient, strict, served)


@pytest.fixture(scope="module")
@starts_process
def slow_store_gateway(upstream: FakeUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway whose store accepts connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environ = {
            "RAGSTORE_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "RAG_TIMEOUT_SECONDS": "2",
        }
        with running(start_gateway(tmp_path_factory.mktemp("slow"), environ, ready=False)) as served:
            yield served


@pytest.fixture
def slow_store(slow_store_gateway: Served) -> Iterator[httpx.Client]:
    """A client of that gateway."""
    with httpx.Client(base_url=slow_store_gateway.url, timeout=30) as client:
        yield client
