"""A Chroma server with narrower limits than the service's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import msgspec

from tests.support.documents import NDJSON_HEADERS, count_of, documents, lines_of
from tests.support.fake_servers import between, listening, with_content
from tests.support.servers import Served, running, start_service
from tests.support.streams import response_lines, stream_path

MAX_BATCH = 300


def _narrowed(head: str, response: str, content: bytes) -> tuple[str, bytes]:
    """Chroma's preflight with a smaller batch size."""
    if "/pre-flight-checks" not in head:
        return response, content
    limits = msgspec.json.decode(content) | {"max_batch_size": MAX_BATCH}
    return with_content(response, content, msgspec.json.encode(limits))


async def test_a_stream_keeps_to_the_batch_size_of_chroma(chroma: Served, name: str, tmp_path: Path) -> None:
    def send(url: str) -> list[int]:
        environ = {"RAGSTORE_CHROMA_URL": url, "RAGSTORE_CHROMA_DATABASE": "hostile"}
        with (
            running(start_service(tmp_path, environ)) as service,
            httpx.Client(base_url=service.url, timeout=30) as client,
        ):
            client.post("/collections", json={"name": name}).raise_for_status()
            lines = lines_of(*documents(1000))
            response = client.post(stream_path(name), content=lines, headers=NDJSON_HEADERS)
            *stored, done = response_lines(response)
            assert done["status"] == "done"
            assert count_of(client, name) == 1000
            client.delete(f"/collections/{name}").raise_for_status()
            return [line["count"] for line in stored]

    async with listening(between(chroma.url, [], change=_narrowed)) as url:
        counts = await asyncio.to_thread(send, url)
    assert sum(counts) == 1000
    assert max(counts) == MAX_BATCH
