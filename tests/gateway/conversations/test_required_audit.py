"""A ledger that cannot be written: a chat that requires its entry is rejected, another one continues."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.support.fake_upstream import FakeUpstream, fake_upstream
from tests.support.gateways import start_gateway
from tests.support.metric_samples import samples
from tests.support.servers import Served, running

pytestmark = pytest.mark.process


@pytest.fixture
def upstream() -> Iterator[FakeUpstream]:
    """A model server, which an httpCall searches too."""
    with fake_upstream() as server:
        yield server


def chat(http: httpx.Client) -> httpx.Response:
    body = {"model": "rag/searcher", "messages": [{"role": "user", "content": "kettle"}]}
    return http.post("/v1/chat/completions", json=body)


def sequences(http: httpx.Client) -> list[int]:
    return [entry["sequence"] for entry in http.get("/audit").json()["entries"]]


def wait_for_log(served: Served, text: str) -> None:
    """Wait until the log has a text: a thread of its own writes it."""
    for _ in range(200):
        if text in served.log.read_text():
            return
        time.sleep(0.05)
    pytest.fail(f"the log has no '{text}'")


@pytest.mark.process
def test_a_chat_needs_its_entry_only_if_the_audit_is_required(
    tmp_path: Path, upstream: FakeUpstream, postgres_url: str
) -> None:
    environ = {
        "RAGSTORE_GATEWAY_DATABASE_URL": postgres_url,
        "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
        "RAGSTORE_GATEWAY_HTTP_CALL_HOSTS": f"127.0.0.1:{upstream.port}",
    }
    assistant: dict[str, Any] = {
        "name": "searcher",
        "model": "m",
        "tasks": [{"id": "t", "httpCallRag": "search"}],
        "httpCalls": {"search": {"url": f"{upstream.url}/models"}},
    }
    # Two replicas share one database.
    required = start_gateway(tmp_path, {**environ, "RAGSTORE_GATEWAY_AUDIT_REQUIRED": "true"})
    with (
        running(required),
        running(start_gateway(tmp_path, {**environ, "RAGSTORE_URL": required.url})) as relaxed,
        httpx.Client(base_url=required.url, timeout=30) as strict,
        httpx.Client(base_url=relaxed.url, timeout=30) as lenient,
    ):
        assert strict.post("/ragstore/assistants", json=assistant).status_code == 201
        assert [chat(strict).status_code, chat(lenient).status_code] == [200, 200]
        assert sequences(lenient) == [1, 2]
        with psycopg.connect(postgres_url) as database:
            database.execute("DELETE FROM audit_head")
        chats = len(upstream.chats())
        response = chat(strict)
        assert (response.status_code, response.json()["error"]["code"]) == (503, "audit_unavailable")
        assert len(upstream.chats()) == chats
        assert chat(lenient).status_code == 200
        assert sequences(lenient) == [1, 2]
        assert samples(lenient)['ragstore_gateway_traced_steps_total{outcome="failed"}'] == 1
        wait_for_log(relaxed, "steps not written")
