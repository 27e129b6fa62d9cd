"""Areas of the campaign that try to take the service's memory: bodies that cost much, and many slow senders."""

from __future__ import annotations

import argparse
import random
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

import httpx

from tests.hostile.bombs import BOMBS, MIB, random_bomb
from tests.hostile.findings import Findings
from tests.support.servers import Served

COLLECTION: Final = "bombed"
MAX_RESPONSE_BYTES: Final = 64 * 1024
SENDERS: Final = 200
BODY_BYTES: Final = 64 * MIB
SENT_BYTES: Final = 24 * MIB
CHUNK_BYTES: Final = 256 * 1024


def send_bombs(service: Served, options: argparse.Namespace, findings: Findings) -> None:
    """Each bomb, then random ones: a response of the right status and of a bounded size, and no restart."""
    chosen = random.Random(options.seed)
    with httpx.Client(base_url=service.url, timeout=120) as client:
        _collection(client)
        ends = time.monotonic() + options.seconds
        bombs = iter(BOMBS)
        while (bomb := next(bombs, None)) or time.monotonic() < ends:
            bomb = bomb or random_bomb(chosen.randrange(2**31))
            headers = {"Content-Type": bomb.media_type}
            path = f"/collections/{COLLECTION}{bomb.path}"
            try:
                response = client.request(bomb.method, path, content=bomb.body(), headers=headers)
            except httpx.WriteError:
                # The service responds before the end of a body that is too large.
                findings.count("bombs", 413)
                continue
            findings.count("bombs", response.status_code)
            expected = {bomb.status} if bomb in BOMBS else {200, 201, 400, 413}
            findings.expect(response.status_code in expected, f"{bomb.name}: {response.status_code}")
            findings.expect(len(response.content) < MAX_RESPONSE_BYTES, f"{bomb.name}: {len(response.content)} bytes")


def send_slowly(service: Served, options: argparse.Namespace, findings: Findings) -> None:
    """Many senders of large bodies that stop in the middle, while another caller queries."""
    with ExitStack() as stack:
        client = stack.enter_context(httpx.Client(base_url=service.url, timeout=60))
        _collection(client)
        senders = [stack.enter_context(_sender(service)) for _ in range(SENDERS)]
        for _ in range(SENT_BYTES // CHUNK_BYTES):
            for sender in senders:
                with suppress(OSError):
                    sender.send(b" " * CHUNK_BYTES)
            response = client.post(f"/collections/{COLLECTION}/query", json={"query_embedding": [1.0]})
            findings.count("senders", response.status_code)
            findings.expect(response.status_code == 200, f"a query beside slow senders: {response.status_code}")
            if findings.wrong:
                return


def _collection(client: httpx.Client) -> None:
    client.post("/collections", json={"name": COLLECTION, "get_or_create": True}).raise_for_status()
    document = {"id": "a", "text": "a", "embedding": [1.0]}
    client.put(f"/collections/{COLLECTION}/documents", json={"documents": [document]}).raise_for_status()


@contextmanager
def _sender(service: Served) -> Iterator[socket.socket]:
    """A connection that has sent the head of a large body, and does not wait."""
    parts = urlsplit(service.url)
    with socket.create_connection((str(parts.hostname), parts.port or 0), timeout=10) as connection:
        connection.sendall(
            f"PUT /collections/{COLLECTION}/documents HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {BODY_BYTES}\r\n\r\n".encode()
        )
        connection.setblocking(False)
        yield connection
