"""Fixtures: a gateway with keys, knowledge bases and a model server, and clients of its tools."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import httpx
import pytest

from tests.support.fake_upstream import FakeUpstream, fake_upstream, replying
from tests.support.gateways import start_gateway, write_scoped_keys
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running

if TYPE_CHECKING:
    from mcp import Client

CANARY: Final = "canary8431"
"""A word of every document. No log has it."""

KETTLE: Final = f"The warranty of the kettle lasts three years. {CANARY}"
REMARKS: Final = "General remarks about this device. " * 20
DESCALING: Final = "Descale the boiler with vinegar " * 30 + "every month, and rinse it twice with cold water."
MANUAL: Final = f"# Manual {CANARY}\n\n{REMARKS}\n\n## Descaling\n\n{DESCALING}\n"
LONG: Final = f"Long {CANARY}\n" + "\n".join(f"Paragraph {number} of the long report. " * 8 for number in range(400))
SECRET: Final = f"The budget of the board is nine thousand. {CANARY}"

Mode = Literal["auto", "legacy"]


@dataclass
class Agents:
    """A gateway that agents use.

    Attributes:
        served: the gateway.
        upstream: its model server.
        keys: the plain keys by name: `root` is an admin, `writer` and `reader` see the bases `team_*`, and `poor`, a
            reader, has spent its tokens.
        folder: where its log is.
        ids: ids of its bases, by name.
    """

    served: Served
    upstream: FakeUpstream
    keys: Mapping[str, str]
    folder: Path
    ids: dict[str, str] = field(default_factory=dict)

    @asynccontextmanager
    async def client(self, key: str = "reader", *, mode: Mode = "auto", **headers: str) -> AsyncIterator[Client]:
        """A client of the SDK.

        Args:
            key: name of its key.
            mode: `legacy` for the protocol of 2025, with its handshake.
            headers: further headers, with `_` for `-`.
        """
        # The SDK takes half a second of each process that collects tests.
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        own = {name.replace("_", "-"): value for name, value in headers.items()}
        given = {"Authorization": f"Bearer {self.keys[key]}", **own}
        async with (
            httpx2.AsyncClient(headers=given, timeout=30) as http,
            Client(streamable_http_client(f"{self.served.url}/mcp", http_client=http), mode=mode) as client,
        ):
            yield client

    def post(self, body: object, key: str = "reader", **headers: str) -> httpx.Response:
        """Send a message by hand."""
        own = {name.replace("_", "-"): value for name, value in headers.items()}
        authorization = {"Authorization": f"Bearer {self.keys[key]}"} if key else {}
        accept = {"Accept": "application/json, text/event-stream"}
        return httpx.post(f"{self.served.url}/mcp", json=body, headers={**accept, **authorization, **own}, timeout=30)

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request to another path, as the admin."""
        headers = {"Authorization": f"Bearer {self.keys['root']}", **options.pop("headers", {})}
        return httpx.request(method, self.served.url + path, headers=headers, timeout=30, **options)

    def add_base(self, name: str, documents: Mapping[str, str], **fields: Any) -> None:
        """Create a base with documents."""
        response = self.call("POST", "/ragstore/rags", json={"name": name, "minScore": 0.0, **fields})
        assert response.status_code == 201, response.text
        path = response.headers["Location"].partition("?")[0]
        self.ids[name] = path.rpartition("/")[2]
        for document, text in documents.items():
            self.ingest(name, document, text)

    def ingest(self, base: str, document: str, text: str, **parameters: str) -> None:
        """Ingest a document, and wait until searches find it."""
        path = f"/ragstore/rags/{self.ids[base]}"
        kind = "text/markdown" if document.endswith(".md") else "text/plain"
        accepted = self.call(
            "POST",
            f"{path}/ingest",
            params={"documentName": document, **parameters},
            content=text.encode(),
            headers={"Content-Type": kind, "X-Session-Id": "ann"},
        )
        assert accepted.status_code == 202, accepted.text
        deadline = time.monotonic() + 60
        while True:
            status = self.call("GET", f"{path}/ingestion/{accepted.json()['ingestionId']}/status").json()["status"]
            if status == "completed":
                return
            assert not status.startswith("failed"), status
            assert time.monotonic() < deadline
            time.sleep(0.05)

    @property
    def log(self) -> str:
        """The log of the gateway."""
        return (self.folder / "gateway.log").read_text()


SCOPES: Final[dict[str, dict[str, object]]] = {
    "root": {"role": "admin"},
    "writer": {"role": "writer", "bases": ["team_*"]},
    "reader": {"role": "reader", "bases": ["team_*"]},
    "poor": {"role": "reader"},
}
"""The scope of each key in the gateway."""


@pytest.fixture(scope="package")
@starts_process
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    """A gateway whose agents may store texts."""
    folder = tmp_path_factory.mktemp("agents")
    scopes = {name: {"gateway": scope, "store": {"role": scope["role"]}} for name, scope in SCOPES.items()}
    keys = write_scoped_keys(folder / "keys", scopes)
    with fake_upstream() as upstream:
        upstream.on("m", replying("Three years [1]."))
        environ = {
            "RAGSTORE_GATEWAY_KEYS_FILE": str(folder / "keys"),
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "RAGSTORE_GATEWAY_MODEL": "m",
            "RAGSTORE_GATEWAY_MCP_WRITE": "true",
            "RAGSTORE_GATEWAY_RAG_COLLECTIONS": "team_kettle",
            "RAGSTORE_GATEWAY_CHAT_TOKENS_PER_MINUTE": "1000",
            "RAGSTORE_GATEWAY_LOG_LEVEL": "debug",
        }
        with running(start_gateway(folder, environ)) as served:
            found = Agents(served, upstream, keys, folder)
            found.ids["team_kettle"] = next(
                each["resource"].rpartition("/")[2].partition("?")[0]
                for each in found.call("GET", "/ragstore/rags/descriptors").json()
                if each["name"] == "team_kettle"
            )
            found.ingest("team_kettle", "kettle.txt", KETTLE)
            found.add_base("team_manuals", {"boiler/manual.md": MANUAL, "long.txt": LONG}, description="Boilers.")
            found.add_base("team_sessions", {}, where={"session": "{session_id}"})
            found.ingest("team_sessions", "upload.txt", "The upload of Ann.", metadata='{"session": "{session_id}"}')
            found.add_base("board", {"budget.txt": SECRET})
            yield found
