# Generated from _async/client.py by scripts/generate_sync_client.py: do not edit.
"""The synchronous client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Self, Unpack

from ragstore_client._options import CallOptions
from ragstore_client._sync.collections import CollectionCalls
from ragstore_client._sync.documents import DocumentCalls
from ragstore_client._sync.handle import CollectionHandle
from ragstore_client._sync.ingest_calls import IngestCalls
from ragstore_client._sync.queries import QueryCalls
from ragstore_client._sync.service import ServiceCalls
from ragstore_client._sync.service_client import ServiceClient


class Client(CollectionCalls, DocumentCalls, IngestCalls, QueryCalls, ServiceCalls, ServiceClient):
    """A typed client of one ragstore service. Threads may share it.

    Every call raises `ProblemError` (`NotFound`, `Conflict`, `Unavailable`, ...) when the service responds with an
    error, `TransportError` when no complete response was received, `UnexpectedResponse` when the response does not
    match the contract, and `InvalidInput` when the arguments cannot be sent. Idempotent calls are retried according
    to `retries`. Every call also takes the options of `CallOptions` by name.

    Args:
        base_url: URL of the service; the variable `RAGSTORE_URL` when None, and `http://127.0.0.1:8080` without it.
        api_key: sent as a bearer token; None for no key. The variable `RAGSTORE_API_KEY` when not given.
        timeout: time limit in seconds for each step of an attempt: to connect, to send, to wait for the response.
            The body must be complete within this time after the attempt began, or after those steps if
            later. An `httpx.Timeout` limits the steps one by one; None limits none.
        retries: the retry policy, or the number of retries; `RetryPolicy()` when None.
        headers: sent with every call.
        transport: the httpx transport; httpx's default when None.
        http: a client of httpx or httpx2 to use instead of a new one; the caller closes it.

    Raises:
        InvalidConfiguration: the URL, the key, the time limit or the retries are not valid.
    """

    _stop_service: Callable[[], None] | None = None
    """Stops the service of a client of `embedded`."""

    @classmethod
    def embedded(cls, path: str | Path) -> Self:
        """Start a service of its own, as a child process on a free port of this machine, for notebooks and tests.

        It needs the distribution `ragstore` with the extra `embedded`. It ends when the client is closed, and also when
        this process ends, however that happens.

        Args:
            path: folder of its data; made when missing. One process at a time can use it.

        Returns:
            A client of the service, which is ready.

        Raises:
            InvalidConfiguration: `ragstore` is not installed.
            EmbeddedServiceFailed: the service has ended while it started; the text is the end of its log.
        """
        from ragstore_client._embedded import EmbeddedService

        service = EmbeddedService(Path(path))
        client = cls(service.url, api_key=None)
        client._stop_service = service.close
        return client

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """A client with other options, for one call or some: `client.with_options(timeout=2).query(...)`.

        Args:
            **options: see `CallOptions`; headers are added to this client's, every other option replaces this client's.

        Returns:
            A client that shares the connections of this one, which need not be closed.
        """
        client = super().with_options(**options)
        client._stop_service = None
        return client

    def collection(self, name: str) -> CollectionHandle:
        """A handle on one collection: this client's calls without the name. No request is sent.

        Args:
            name: name of the collection, which need not exist yet.
        """
        return CollectionHandle(self, name)

    def close(self) -> None:
        """Close the connections, unless `http` was given. The client cannot be used afterwards."""
        super().close()
        if self._stop_service is not None:
            self._stop_service()
