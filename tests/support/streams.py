"""Streams of documents: sent at once, or line by line while the answer is read."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import httpx

from tests.support.documents import NDJSON_HEADERS, documents_path

Told: TypeAlias = dict[str, Any]
"""A line of the answer."""


def stream_path(collection: str, mode: str = "add") -> str:
    """Where streams of a collection go."""
    return f"{documents_path(collection)}/stream?mode={mode}"


def stream(http: httpx.Client, collection: str, content: bytes, mode: str = "add") -> httpx.Response:
    """Send a whole stream, and read the answer afterwards."""
    return http.post(stream_path(collection, mode), content=content, headers=NDJSON_HEADERS)


def told(answer: httpx.Response) -> list[Told]:
    """The lines of an answer; all but the last acknowledge batches, which follow each other without a gap."""
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    *stored, end = lines
    assert [line["status"] for line in stored] == ["stored"] * len(stored)
    assert end["count"] == sum(line["count"] for line in stored)
    assert end["batches"] == len(stored)
    assert end["last_line"] == (stored[-1]["last_line"] if stored else 0)
    return lines


class Duplex:
    """A stream whose sender reads the answer meanwhile.

    Args:
        connection: a connection on which the head was sent.
    """

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection
        self._answer: http.client.HTTPResponse | None = None

    def send(self, content: bytes) -> None:
        """Send some bytes of the body."""
        self.connection.send(b"%x\r\n%s\r\n" % (len(content), content))

    def end(self) -> None:
        """End the body."""
        self.connection.send(b"0\r\n\r\n")

    @property
    def answer(self) -> http.client.HTTPResponse:
        """The answer, whose head has come."""
        if self._answer is None:
            self._answer = self.connection.getresponse()
        return self._answer

    def read(self) -> Told:
        """Wait for the next line of the answer."""
        line: Told = json.loads(self.answer.readline())
        return line

    def rest(self) -> list[Told]:
        """Wait for all further lines of the answer."""
        return [json.loads(line) for line in self.answer.read().splitlines()]


@contextmanager
def duplex(url: str, collection: str, mode: str = "add", timeout: float = 60) -> Iterator[Duplex]:
    """Begin a stream."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=timeout)
    connection.putrequest("POST", stream_path(collection, mode))
    connection.putheader("Content-Type", "application/x-ndjson")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    try:
        yield Duplex(connection)
    finally:
        connection.close()
