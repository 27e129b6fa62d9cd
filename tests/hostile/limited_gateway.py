"""A gateway in a memory control group of 1 GiB, with everything that its routes need.

Its child processes have a control group of their own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from tests.hostile.memory_limit import MemoryLimit
from tests.hostile.other_caller import OtherCaller, other_caller
from tests.support.fake_sites import FakeSite, fake_site
from tests.support.fake_upstream import Exchange, FakeUpstream, answer, delta, fake_upstream
from tests.support.gateways import write_keys
from tests.support.servers import Served, free_port, running, start_process

MIB: Final = 1024 * 1024
LIMIT_BYTES: Final = 1024 * MIB
"""Maximum memory of the gateway's own process."""

CHILDREN_BYTES: Final = 1472 * MIB
"""Maximum memory of its child processes, embedded Chroma included. Both together are the limit of the gateway in
docker-compose.yml, whose store is in another container."""

PAGE_BYTES: Final = 5 * MIB - 1024
PAGES: Final = 50
TEXT_BYTES: Final = 8 * MIB
FILE_BYTES: Final = 50 * MIB
EVENTS: Final = 2_000
WAIT_SECONDS: Final = 300.0
SOURCE: Final = "uploads"
DOCUMENT: Final = "large.txt"
MINILM: Final = {"model": "builtin/minilm"}
TASKS: Final = [{"id": "answer", "knowledgeBases": [{"name": "hostile"}]}]


@dataclass
class LimitedGateway:
    """A running gateway, and what it has.

    Attributes:
        served: its process.
        limit: its memory limit.
        key: a key with the role `admin`, for hostile requests.
        other: another caller.
        site: a site that pages may be fetched from.
        ids: the ids of a base, an assistant, a file and a vector store, and of the store's own base.
    """

    served: Served
    limit: MemoryLimit
    key: str
    other: OtherCaller
    site: FakeSite
    ids: dict[str, str]

    @property
    def client(self) -> httpx.Client:
        """A client with the hostile caller's key."""
        return httpx.Client(base_url=self.served.url, headers={"X-API-Key": self.key}, timeout=WAIT_SECONDS)

    def pages(self) -> list[str]:
        """The URLs of the largest pages."""
        return [f"{self.site.origin}/page{number}" for number in range(PAGES)]


@contextmanager
def limited_gateway(folder: Path) -> Iterator[LimitedGateway]:
    """Run a gateway while the block runs.

    Args:
        folder: where its data and its log go.
    """
    limit = MemoryLimit(LIMIT_BYTES, CHILDREN_BYTES)
    keys = write_keys(folder / "keys", {"hostile": "admin", "other": "reader"})
    port = free_port()
    with ExitStack() as stack:
        stack.callback(limit.close)
        site, upstream = stack.enter_context(fake_site()), stack.enter_context(fake_upstream())
        _serve(site, upstream)
        environ = {
            "RAGSTORE_GATEWAY_PORT": str(port),
            "RAGSTORE_GATEWAY_DATA_PATH": str(folder / "data"),
            "RAGSTORE_GATEWAY_KEYS_FILE": str(folder / "keys"),
            "RAGSTORE_GATEWAY_LOG_LEVEL": "warning",
            # The model builtin/minilm needs minutes for the texts of 8 MB. It is loaded for a small base.
            "RAGSTORE_GATEWAY_EMBEDDING_MODEL": "builtin/wordllama",
            "RAGSTORE_GATEWAY_UPSTREAM_URL": upstream.url,
            "RAGSTORE_GATEWAY_MODEL": "m",
            "RAGSTORE_GATEWAY_ALLOW_HOSTS": f"127.0.0.1:{site.port}",
            "SEARXNG_URL": f"{site.origin}/searx",
        }
        command = [*limit.prefix, sys.executable, "-m", "ragstore_gateway", "serve"]
        served = start_process(command, f"http://127.0.0.1:{port}", folder / "gateway.log", environ)
        stack.enter_context(running(served))
        served.wait_until_ready("/health/ready")
        stack.enter_context(limit.watching(served))
        other = stack.enter_context(other_caller(served.url, keys["other"]))
        gateway = LimitedGateway(served, limit, keys["hostile"], other, site, {})
        with gateway.client as http:
            gateway.ids = _filled(http)
        yield gateway


def _serve(site: FakeSite, upstream: FakeUpstream) -> None:
    paragraph = "<p>The boiler is serviced every October by the caretaker of the house, who has the keys.</p>\n"
    page = f"<html><body><article>{paragraph * (PAGE_BYTES // len(paragraph))}</article></body></html>"
    for number in range(PAGES):
        site.page(f"page{number}", page)
    results = [{"url": f"{site.origin}/{n}", "title": "Boiler", "content": "boiler " * 300} for n in range(100)]
    site.page("search", httpx.Response(200, json={"results": results}).content, "Content-Type: application/json")

    async def reply(exchange: Exchange) -> None:
        request = exchange.request
        is_stream = b'"stream": true' in request.body or b'"stream":true' in request.body
        if request.method == "GET" or not is_stream:
            await answer(exchange)
        else:
            request.body = b""
            await exchange.begin_stream()
            for _ in range(EVENTS // 100):
                await exchange.chunk(delta("tea ", "m") * 100)
            await exchange.chunk(b"data: [DONE]\n\n")
            await exchange.end_stream()
        request.body = b""  # the server keeps all requests

    upstream.default = reply


def _filled(http: httpx.Client) -> dict[str, str]:
    base = {
        "name": "hostile",
        "chunkSize": 20_000,
        "chunkOverlap": 0,
        "sources": [{"name": SOURCE, "type": "upload"}],
    }
    rag = _created(http.post("/ragstore/rags", json=base))
    minilm = _created(http.post("/ragstore/rags", json={"name": "small", "embeddingParameters": MINILM}))
    plain = {"Content-Type": "text/plain"}
    http.post(f"/ragstore/rags/{minilm}/ingest", params={"documentName": "a"}, content="Tea.", headers=plain)
    text = "The boiler is serviced every October. " * (TEXT_BYTES // 38)
    ingest = f"/ragstore/rags/{rag}/ingest"
    http.post(ingest, params={"documentName": DOCUMENT}, content=text, headers=plain).raise_for_status()
    assistant = {"name": "hostile", "model": "m", "workflow": ["hostile"], "tasks": TASKS}
    file = {"file": ("large.txt", b"tea " * (FILE_BYTES // 4 - 1024), "text/plain")}
    uploaded = http.post("/v1/files", data={"purpose": "assistants"}, files=file).raise_for_status().json()
    small = {"file": ("text.txt", text.encode(), "text/plain")}
    attached = http.post("/v1/files", data={"purpose": "assistants"}, files=small).raise_for_status().json()
    files = {"name": "files", "chunk_size": 20_000, "chunk_overlap": 0, "chunk_unit": "characters"}
    store = http.post("/v1/vector_stores", json=files).raise_for_status().json()["id"]
    http.post(f"/v1/vector_stores/{store}/files", json={"file_id": attached["id"]}).raise_for_status()
    upload = {"filename": "large.txt", "purpose": "assistants", "mime_type": "text/plain"}
    content = file["file"][1]
    uploads = [
        http.post("/v1/uploads", json={**upload, "bytes": len(content)}).raise_for_status().json()["id"]
        for _ in range(2)
    ]
    part = http.post(f"/v1/uploads/{uploads[1]}/parts", files={"data": content}).raise_for_status().json()["id"]
    ids = {
        "upload": uploads[0],
        "full_upload": uploads[1],
        "part": part,
        "rag": rag,
        "assistant": _created(http.post("/ragstore/assistants", json=assistant)),
        "file": uploaded["id"],
        "store": store,
        "store_file": attached["id"],
    }
    _wait(http, f"/ragstore/rags/{minilm}/texts/a")
    _wait(http, f"/ragstore/rags/{rag}/texts/{DOCUMENT}")
    _wait(http, f"/v1/vector_stores/{store}/files/{attached['id']}/content")
    return ids


def _created(response: httpx.Response) -> str:
    response.raise_for_status()
    location: Any = response.headers.get("Location", "")
    return str(location).partition("?")[0].rpartition("/")[2]


def _wait(http: httpx.Client, path: str) -> None:
    """Wait until a text can be read."""
    ends = time.monotonic() + WAIT_SECONDS
    while http.get(path).status_code != 200:
        assert time.monotonic() < ends, path
        time.sleep(0.2)
