"""Jobs begin when their requests for embeddings can be sent, and not long before."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from ragstore_gateway.ingestion import embedding_requests
from ragstore_gateway.ingestion.embedding_requests import SLOW_SECONDS, EmbeddingRequests
from ragstore_gateway.ingestion.queue import MAX_DOCUMENTS
from tests.gateway.ingestion.conftest import new_base
from tests.support.gateways import start_gateway
from tests.support.ingestion import client_of, embedding_server, until
from tests.support.servers import running


class Wakes:
    """Requests whose calls of `on_room` are counted."""

    def __init__(self, concurrency: int) -> None:
        self.requests = EmbeddingRequests(concurrency)
        self.requests.on_room = self._wake
        self.count = 0

    def _wake(self) -> None:
        self.count += 1


def test_a_base_is_full_while_a_request_waits_behind_others_and_reports_its_room_once() -> None:
    wakes = Wakes(2)
    requests = wakes.requests
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(requests.request("tea"))
        assert not requests.is_full("tea", preparing=5), "the provider is not slow"
        with requests.request("tea"):
            assert requests.is_full("tea", preparing=0)
            assert not requests.is_full("coffee", preparing=0)
            assert wakes.count == 0
        assert wakes.count == 1
    assert wakes.count == 1, "nobody waits for room any more"


def test_with_a_slow_provider_a_job_that_prepares_its_texts_counts_as_its_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(embedding_requests, "monotonic", lambda: now)
    wakes = Wakes(4)
    requests = wakes.requests
    with requests.request("tea"):
        now += SLOW_SECONDS
    assert not requests.is_full("tea", preparing=1)
    assert requests.is_full("tea", preparing=2)
    with requests.request("tea"):
        assert wakes.count == 1, "the job that sent it prepares no more"
        assert not requests.is_full("tea", preparing=1)
    assert not requests.is_full("tea", preparing=5), "it is not slow any more"


@pytest.mark.process
async def test_documents_stay_in_the_queue_while_a_slow_provider_has_enough_requests(tmp_path: Path) -> None:
    """A process claimed 192 documents, which another one could embed."""
    environ = {"RAGSTORE_GATEWAY_EMBEDDING_CONCURRENCY": "1", "RAGSTORE_GATEWAY_EMBEDDING_CACHE_BYTES": "0"}
    async with embedding_server(seconds=1.5 * SLOW_SECONDS) as slow:
        with running(start_gateway(tmp_path, environ)) as served:
            async with client_of(served.url) as client:
                base = await new_base(client, slow)
                await base.completed("first", "coffee")
                slow.held = "tea"
                documents = [{"documentName": f"doc-{number}", "text": f"tea {number}"} for number in range(200)]
                lines = "\n".join(json.dumps(each) for each in documents)
                headers = {"Content-Type": "application/x-ndjson"}
                response = await client.post(f"{base.path}/ingest/batch", content=lines, headers=headers)
                ids = [each["ingestionId"] for each in response.json()["documents"]]
                await until(lambda: slow.waiting == 1)
                processing = 0
                for _ in range(30):
                    processing = max(processing, (await base.progress([]))["processing"])
                assert MAX_DOCUMENTS <= processing <= 2 * MAX_DOCUMENTS
                slow.held, slow.seconds = "\0", 0.0
                assert {(await base.ended(each))["status"] for each in ids} == {"completed"}
