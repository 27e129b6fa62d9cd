"""PostgreSQL that is stopped: no chat of an assistant continues without the assistant, or without its ledger entry."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from uuid import uuid4

import httpx
import pytest

from tests.support.fake_upstream import FakeUpstream, fake_upstream
from tests.support.gateways import start_gateway
from tests.support.postgres import Postgres, running_postgres
from tests.support.servers import running

pytestmark = pytest.mark.process

WAIT_SECONDS = 30.0


@dataclass
class Replicas:
    """Two gateways over one PostgreSQL, which can be stopped.

    Attributes:
        lenient: a gateway with the default settings. It started after the assistant `ops` was written, and has not
            served it.
        strict: a gateway that requires passages and an entry in the ledger. It has served `ops`.
        postgres: their database.
        upstream: their upstream. It has the model `m`, and none of the names of assistants.
    """

    lenient: httpx.Client
    strict: httpx.Client
    postgres: Postgres
    upstream: FakeUpstream

    def write(self, name: str) -> None:
        """Write an assistant that searches with an HTTP call."""
        body = {
            "name": name,
            "model": "m",
            "systemMessage": f"You are {name}.",
            "tasks": [{"id": "t", "httpCallRag": "search"}],
            "httpCalls": {"search": {"url": f"{self.upstream.url}/models"}},
        }
        assert self.strict.post("/ragstore/assistants", json=body).status_code == 201


def chat(http: httpx.Client, model: str) -> httpx.Response:
    messages = [{"role": "user", "content": "Where is the kettle?"}]
    return http.post("/v1/chat/completions", json={"model": model, "messages": messages})


def code_of(response: httpx.Response) -> tuple[int, str, str]:
    """Status, code and `Retry-After` of an error."""
    return response.status_code, response.json()["error"]["code"], response.headers["Retry-After"]


def wait_until_ready(http: httpx.Client) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while http.get("/health/ready?feature=knowledge_bases").status_code != 200 and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """The gateways."""
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres())
        upstream = stack.enter_context(fake_upstream())
        shared = {
            "RAGSTORE_GATEWAY_DATABASE_URL": postgres.create_database(),
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "RAGSTORE_GATEWAY_HTTP_CALL_HOSTS": f"127.0.0.1:{upstream.port}",
            # It would serve the names of assistants as plain models.
            "RAGSTORE_GATEWAY_MODEL": "m",
        }

        def started(environ: dict[str, str]) -> httpx.Client:
            folder = tmp_path_factory.mktemp("replica")
            served = stack.enter_context(running(start_gateway(folder, {**shared, **environ})))
            return stack.enter_context(httpx.Client(base_url=served.url, timeout=WAIT_SECONDS))

        required = {"RAGSTORE_GATEWAY_AUDIT_REQUIRED": "true", "RAGSTORE_GATEWAY_ON_RETRIEVAL_FAILURE": "fail"}
        strict = started(required)
        found = Replicas(strict, strict, postgres, upstream)
        found.write("ops")
        assert chat(strict, "rag/ops").status_code == 200
        found.lenient = started({"RAGSTORE_URL": str(strict.base_url)})
        yield found


@pytest.fixture
def late(replicas: Replicas) -> Iterator[str]:
    """An assistant that neither gateway has loaded when their database stops. The database starts again at the end."""
    name = f"late-{uuid4().hex[:8]}"
    replicas.write(name)
    replicas.postgres.stop()
    yield name
    replicas.postgres.start()
    wait_until_ready(replicas.lenient)
    wait_until_ready(replicas.strict)


def test_an_assistant_that_cannot_be_looked_up_is_503_and_never_a_plain_model(replicas: Replicas, late: str) -> None:
    chats = len(replicas.upstream.chats())
    for gateway in (replicas.lenient, replicas.strict):
        # The upstream has `m`, but an assistant may have that name, too.
        for model in (f"rag/{late}", "rag/m"):
            assert code_of(chat(gateway, model)) == (503, "database_unavailable", "1")
            assert code_of(gateway.get(f"/v1/models/{model}")) == (503, "database_unavailable", "1")
        assert chat(gateway, "m").status_code == 200
    assert [request.json["messages"][0]["role"] for request in replicas.upstream.chats()[chats:]] == ["user", "user"]
    assert replicas.upstream.chats()[-1].model == "m"


def test_a_replica_serves_an_assistant_for_the_first_time_while_the_database_is_away(
    replicas: Replicas, late: str
) -> None:
    response = chat(replicas.lenient, "rag/ops")
    assert response.status_code == 200
    assert replicas.upstream.chats()[-1].json["messages"][0]["content"].startswith("You are ops.")
    assert replicas.lenient.get("/v1/models/rag/ops").json()["id"] == "rag/ops"
    assert "rag/ops" in [model["id"] for model in replicas.lenient.get("/v1/models").json()["data"]]


def test_a_chat_that_requires_its_ledger_entry_never_reaches_the_upstream(replicas: Replicas, late: str) -> None:
    before = len(replicas.upstream.chats())
    assert code_of(chat(replicas.strict, "rag/ops")) == (503, "audit_unavailable", "1")
    assert code_of(chat(replicas.strict, f"rag/{late}")) == (503, "database_unavailable", "1")
    assert len(replicas.upstream.chats()) == before
    replicas.postgres.start()
    wait_until_ready(replicas.strict)
    answered = [chat(replicas.strict, f"rag/{name}") for name in ("ops", late)]
    assert [response.status_code for response in answered] == [200, 200]
    entries = replicas.strict.get("/audit").json()["entries"]
    assert [entry["sequence"] for entry in entries] == list(range(1, len(entries) + 1))
    ids = [response.headers["X-Request-ID"] for response in answered]
    assert [entry["requestId"] for entry in entries if entry["requestId"] in ids] == ids


def readiness(http: httpx.Client, feature: str = "") -> tuple[int, dict[str, str]]:
    """The status of a readiness probe, and the state of each feature."""
    response = http.get("/health/ready", params={"feature": feature} if feature else {})
    features: dict[str, str] = response.json()["features"]
    return response.status_code, features


def test_without_the_database_what_needs_none_is_ready_and_the_rest_is_503_with_its_code(
    replicas: Replicas, late: str
) -> None:
    complete = {"assistants": "ready", "chat": "ready", "embeddings": "ready"}
    away = "database_unavailable"
    assert readiness(replicas.lenient) == (200, {**complete, "knowledge_bases": away})
    assert readiness(replicas.strict) == (200, {**complete, "assistants": "audit_unavailable", "knowledge_bases": away})
    for feature, status in (("chat", 200), ("embeddings", 200), ("assistants", 200), ("knowledge_bases", 503)):
        assert readiness(replicas.lenient, feature)[0] == status
    assert readiness(replicas.strict, "assistants")[0] == 503
    # A feature that is ready works; another one responds with its code.
    assert chat(replicas.lenient, "m").status_code == 200
    assert replicas.lenient.post("/embed", json={"inputs": ["tea"]}).status_code == 200
    assert chat(replicas.lenient, "rag/ops").status_code == 200
    assert replicas.lenient.get("/ragstore/rags/descriptors").json()["code"] == away
    assert code_of(chat(replicas.strict, "rag/ops"))[:2] == (503, "audit_unavailable")


def test_a_feature_that_does_not_exist_is_400(replicas: Replicas) -> None:
    assert replicas.lenient.get("/health/ready?feature=tea").status_code == 400
