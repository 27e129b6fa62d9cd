"""Fixtures: a gateway with keys, knowledge bases and assistants, in front of a fake upstream."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.chat.conftest import new_key
from tests.support.fake_upstream import Exchange, FakeUpstream, fake_upstream
from tests.support.gateways import start_gateway
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running

SECRET = "CANARY-SECRET-8431"
"""A secret of the gateway's environment, which an httpCall refers to."""

DOCS = {
    "warranty.txt": "The warranty of the kettle lasts three years. CANARY-TEXT-DOCS",
    "cleaning.txt": "Clean the kettle with vinegar every month.",
}
FAQ = {"hours.txt": "The shop that sells kettles opens at nine. CANARY-TEXT-FAQ"}
RESULT = "A page about kettles. CANARY-TEXT-PAGE"


@dataclass
class Assisted:
    """A gateway with assistants.

    Attributes:
        served: the gateway.
        keys: its plain keys by name: `ann` and `bob` are readers, `root` is an admin.
        upstream: its upstream, which also serves `/v1/find/api` and other paths for HTTP calls.
    """

    served: Served
    keys: dict[str, str]
    folder: Path
    upstream: FakeUpstream

    def call(self, key: str, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request with a key."""
        headers = {**({"Authorization": f"Bearer {self.keys[key]}"} if key else {}), **options.pop("headers", {})}
        return httpx.request(method, self.served.url + path, headers=headers, timeout=30, **options)

    def created(self, path: str, body: dict[str, Any]) -> str:
        """Create a configuration, and return its path with the version."""
        response = self.call("root", "POST", path, json=body)
        assert response.status_code == 201, response.text
        return response.headers["Location"]

    def base(self, name: str, documents: dict[str, str], **fields: Any) -> str:
        """A knowledge base with documents; its path."""
        path = self.created("/ragstore/rags", {"name": name, "minScore": 0.5, **fields}).partition("?")[0]
        for document, text in documents.items():
            self.ingested(path, document, text)
        return path

    def ingested(self, path: str, document: str, text: str, **parameters: str) -> dict[str, Any]:
        """Ingest a document into a knowledge base; the status of its ingestion."""
        response = self.call(
            "root",
            "POST",
            f"{path}/ingest",
            params={"documentName": document, **parameters},
            content=text.encode(),
            headers={"Content-Type": "text/plain"},
        )
        assert response.status_code == 202, response.text
        status = f"{path}/ingestion/{response.json()['ingestionId']}/status"
        deadline = time.monotonic() + 60
        while True:
            found: dict[str, Any] = self.call("root", "GET", status).json()
            if found["status"] == "completed":
                return found
            assert not found["status"].startswith("failed"), found
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def assistant(self, name: str, **fields: Any) -> str:
        """An assistant; its path with the version."""
        given = {"name": name, "model": "m", "tasks": [{"id": "answer", "enableWorkflowRag": True}], **fields}
        return self.created("/ragstore/assistants", given)

    def ask(
        self, model: str, question: str = "kettle warranty", *, key: str = "ann", conversation: str = "", **body: Any
    ) -> httpx.Response:
        """Chat with a model."""
        headers = {"X-Conversation-Id": conversation} if conversation else {}
        messages = [{"role": "user", "content": question}]
        return self.call(
            key,
            "POST",
            "/v1/chat/completions",
            json={"model": f"rag/{model}", "messages": messages, **body},
            headers=headers,
        )

    def data(self, conversation: str, key: str = "ann") -> dict[str, Any]:
        """The data of the last step of a conversation."""
        response = self.call(key, "GET", f"/conversations/{conversation}")
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()["steps"][-1]["data"]
        return found

    @property
    def system(self) -> str:
        """The system message of the last chat that the upstream received."""
        message = self.upstream.chats()[-1].json["messages"][0]
        assert message["role"] == "system"
        return str(message["content"])

    @property
    def api(self) -> str:
        """The address of the allowed server for HTTP calls."""
        return self.upstream.url


async def found(exchange: Exchange) -> None:
    """Respond to an HTTP call."""
    await exchange.respond(json.dumps({"hits": [{"text": RESULT}]}).encode())


def http_calls(assisted: Assisted, **fields: Any) -> dict[str, Any]:
    """The HTTP calls of an assistant: one, which needs a secret."""
    headers = {"Authorization": "Bearer ${env:SEARCH_KEY}"}
    call = {"url": f"{assisted.api}/find/api", "pointer": "/hits/0/text", "headers": headers}
    return {"search-api": {**call, "query": {"q": "{userInput}"}, **fields}}


@pytest.fixture(scope="package")
@starts_process
def assistant_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Assisted]:
    """A gateway with two knowledge bases. It keeps contexts, and shows details of retrieval."""
    folder = tmp_path_factory.mktemp("assistants")
    roles = {"ann": "reader", "bob": "reader", "root": "admin"}
    keys = {name: new_key(folder / "keys", name, role) for name, role in roles.items()}
    with fake_upstream() as upstream:
        upstream.on("api", found)
        environ = {
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "RAGSTORE_GATEWAY_KEYS_FILE": str(folder / "keys"),
            "RAGSTORE_GATEWAY_KEEP_CONTEXTS": "true",
            "RAGSTORE_GATEWAY_MODELS_PATH": str(folder / "models"),
            "RAGSTORE_GATEWAY_HTTP_CALL_HOSTS": f"127.0.0.1:{upstream.port}",
            "RAGSTORE_GATEWAY_RAG_DEBUG": "true",
            "RAGSTORE_GATEWAY_RAG_TIMEOUT_SECONDS": "3",
            "RAGSTORE_GATEWAY_LOG_LEVEL": "debug",
            "SEARCH_KEY": SECRET,
            "RAGSTORE_GATEWAY_SECRET_VARIABLES": "SEARCH_KEY",
        }
        with running(start_gateway(folder, environ)) as served:
            assisted = Assisted(served, keys, folder, upstream)
            assisted.base("docs", DOCS)
            assisted.base("faq", FAQ, maxResults=3)
            assisted.assistant("support", workflow=["docs", "faq"], systemMessage="You help.")
            yield assisted
