"""Streams of documents: sent as a whole, or line by line while the response is read."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import httpx

from tests.support.documents import NDJSON_HEADERS, documents_path

ResponseLine: TypeAlias = dict[str, Any]
"""A line of the response to a stream."""


def stream_path(collection: str, mode: str = "add") -> str:
    """The path for streams to a collection."""
    return f"{documents_path(collection)}/stream?mode={mode}"


def stream(http: httpx.Client, collection: str, content: bytes, mode: str = "add") -> httpx.Response:
    """Send a whole stream, and read the response afterwards."""
    return http.post(stream_path(collection, mode), content=content, headers=NDJSON_HEADERS)


def response_lines(response: httpx.Response) -> list[ResponseLine]:
    """The lines of a response. All but the last acknowledge consecutive batches."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in response.text.splitlines()]
    *stored, end = lines
    assert [line["status"] for line in stored] == ["stored"] * len(stored)
    assert end["count"] == sum(line["count"] for line in stored)
    assert end["batches"] == len(stored)
    assert end["last_line"] == (stored[-1]["last_line"] if stored else 0)
    return lines


class Duplex:
    """A stream whose response is read while it is sent.

    Args:
        connection: a connection on which the request's head was sent.
    """

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection
        self._response: http.client.HTTPResponse | None = None

    def send(self, content: bytes) -> None:
        """Send some bytes of the body."""
        self.connection.send(b"%x\r\n%s\r\n" % (len(content), content))

    def end(self) -> None:
        """End the body."""
        self.connection.send(b"0\r\n\r\n")

    @property
    def response(self) -> http.client.HTTPResponse:
        """The response, once its head has arrived."""
        if self._response is None:
            self._response = self.connection.getresponse()
        return self._response

    def read(self) -> ResponseLine:
        """Wait for the next line of the response."""
        line: ResponseLine = json.loads(self.response.readline())
        return line

    def rest(self) -> list[ResponseLine]:
        """Wait for all further lines of the response."""
        return [json.loads(line) for line in self.response.read().splitlines()]


@contextmanager
def duplex(url: str, collection: str, mode: str = "add", timeout: float = 60, key: str = "") -> Iterator[Duplex]:
    """Start a stream, with a key if one is given."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=timeout)
    connection.putrequest("POST", stream_path(collection, mode))
    connection.putheader("Content-Type", "application/x-ndjson")
    connection.putheader("Transfer-Encoding", "chunked")
    if key:
        connection.putheader("X-API-Key", key)
    connection.endheaders()
    try:
        yield Duplex(connection)
    finally:
        connection.close()
