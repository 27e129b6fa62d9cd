"""Whether a URL names a ragstore service or a plain Chroma server.

The platform calls it `chromadb_url`, and both are found behind it.
"""

from __future__ import annotations

import threading
import time
from typing import Literal, TypeAlias

from ragstore_client._async.transport import AsyncTransport
from ragstore_client._endpoint import parse_endpoint
from ragstore_client._exceptions import ProblemError, ServerError, UnexpectedResponse
from ragstore_client._retries import RetryPolicy
from ragstore_client.rag._chroma_calls import heartbeat
from ragstore_client.rag._connections import shared_http

Backend: TypeAlias = Literal["ragstore", "chroma"]


class BackendDetector:
    """Finds out what is behind a URL, and remembers it for a while. Threads may share it.

    Args:
        remember: seconds for which an answer holds.
    """

    def __init__(self, remember: float = 300.0) -> None:
        self._remember = remember
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Backend, float]] = {}

    def known(self, url: str) -> Backend | None:
        """What is remembered of a URL."""
        with self._lock:
            backend, expires = self._known.get(url, (None, 0.0))
        return backend if time.monotonic() < expires else None

    def forget(self, url: str) -> None:
        """Ask again next time."""
        with self._lock:
            self._known.pop(url, None)

    async def detect(self, url: str, *, within: float) -> Backend:
        """Find out what is behind a URL.

        Only Chroma has Chroma's heartbeat. No key is sent along.

        Args:
            url: the base URL.
            within: seconds for the answer.

        Returns:
            Which it is.

        Raises:
            TransportError: nothing answers there.
            ServerError: what answers is out of order.
            InvalidConfiguration: it is no URL.
        """
        known = self.known(url)
        if known is not None:
            return known
        retries = RetryPolicy(attempts=2, base=0.1, budget=within)
        transport = AsyncTransport(await shared_http(), parse_endpoint(url), timeout=within, retries=retries)
        try:
            await transport.send(heartbeat())
        except ServerError:
            raise
        except (ProblemError, UnexpectedResponse):
            backend: Backend = "ragstore"
        else:
            backend = "chroma"
        with self._lock:
            self._known[url] = (backend, time.monotonic() + self._remember)
        return backend


shared_detector = BackendDetector()
"""What all retrievers know: they live for one invocation, services stay what they are."""
