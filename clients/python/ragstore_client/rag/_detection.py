"""Detects whether a URL belongs to a ragstore service or to a plain Chroma server.

The platform calls the URL `chromadb_url` in both cases.
"""

from __future__ import annotations

import threading
import time
from typing import Literal, TypeAlias

import httpx
import msgspec

from ragstore_client._async.transport import AsyncTransport
from ragstore_client._call import Call
from ragstore_client._endpoint import parse_endpoint
from ragstore_client._exceptions import ProblemError, ServerError, UnexpectedResponse
from ragstore_client._responses import json_decoder
from ragstore_client.rag._connections import connections, search_retries

Backend: TypeAlias = Literal["ragstore", "chroma"]


class Heartbeat(msgspec.Struct):
    """The heartbeat of a Chroma server, which no other server has: used for detection."""

    nanoseconds: int = msgspec.field(name="nanosecond heartbeat")


def heartbeat() -> Call[Heartbeat]:
    """Get the heartbeat."""
    return Call("GET", "/api/v2/heartbeat", json_decoder(Heartbeat))


class BackendDetector:
    """Detects the backend behind a URL and caches the result. Threads may share it.

    Args:
        ttl_seconds: how long a result is cached.
    """

    def __init__(self, ttl_seconds: float = 300.0) -> None:
        self._ttl_seconds = ttl_seconds
        self._lock = threading.Lock()
        self._cache: dict[str, tuple[Backend, float]] = {}
        self._without_layers: set[tuple[str, str]] = set()

    def note_without_layers(self, url: str, collection: str) -> bool:
        """Note that the documents of a collection have no layer, and return whether that is news."""
        with self._lock:
            is_news = (url, collection) not in self._without_layers
            self._without_layers.add((url, collection))
        return is_news

    def cached(self, url: str) -> Backend | None:
        """The cached result for a URL; None when there is none."""
        with self._lock:
            backend, expires = self._cache.get(url, (None, 0.0))
        return backend if time.monotonic() < expires else None

    def invalidate(self, url: str) -> None:
        """Remove the cached result for a URL."""
        with self._lock:
            self._cache.pop(url, None)

    async def detect(self, url: str, *, timeout_seconds: float, http: httpx.AsyncClient | None = None) -> Backend:
        """Detect the backend behind a URL.

        Only Chroma has Chroma's heartbeat. The request carries no key.

        Args:
            url: the base URL.
            timeout_seconds: time limit of the request, retry included.
            http: the httpx client; the event loop's pool when None.

        Returns:
            The backend.

        Raises:
            TransportError: no server responds there.
            ServerError: the server responds with an error of its own (5xx).
            InvalidConfiguration: the URL is not valid.
        """
        cached = self.cached(url)
        if cached is not None:
            return cached
        transport = AsyncTransport(
            await connections(http),
            parse_endpoint(url),
            timeout=timeout_seconds,
            retries=search_retries(timeout_seconds),
        )
        try:
            await transport.send(heartbeat())
        except ServerError:
            raise
        except (ProblemError, UnexpectedResponse):
            backend: Backend = "ragstore"
        else:
            backend = "chroma"
        with self._lock:
            self._cache[url] = (backend, time.monotonic() + self._ttl_seconds)
        return backend
