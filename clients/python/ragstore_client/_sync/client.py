"""The client for synchronous programs."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self, TypeVar

import httpx

from ragstore_client._call import Call
from ragstore_client._endpoint import DEFAULT_URL, endpoint, ssl_context
from ragstore_client._retries import RetryPolicy
from ragstore_client._sync.collections import CollectionCalls
from ragstore_client._sync.documents import DocumentCalls
from ragstore_client._sync.queries import QueryCalls, ServiceCalls
from ragstore_client._sync.transport import Transport

T = TypeVar("T")


class Client(CollectionCalls, DocumentCalls, QueryCalls, ServiceCalls):
    """A typed client of one ragstore service. Threads may share it; connections are reused.

    Every call raises `ProblemError` (`NotFound`, `Conflict`, `Unavailable`, ...) when the service says no,
    `TransportError` when no whole answer came, `UnexpectedResponse` when the answer is none of the contract, and
    `InvalidInput` when the arguments cannot be sent. Calls that are idempotent are tried again as `retries` says.

    Args:
        base_url: where the service is.
        api_key: sent as a bearer token.
        timeout: seconds that each step of a try may take: to connect, to send, to wait for the answer; and the whole
            body of the answer must be there within that time after the try began, unless those steps took longer.
        retries: when to try again.
        headers: sent with every call.
        transport: what carries requests; httpx's own by default.

    Raises:
        InvalidConfiguration: the URL or the key is none.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeout: float = 30.0,
        retries: RetryPolicy | None = None,
        headers: Mapping[str, str] | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._endpoint = endpoint(base_url, api_key)
        self._http = httpx.Client(timeout=timeout, transport=transport, verify=ssl_context())
        self._transport = Transport(
            self._http, self._endpoint, timeout=timeout, retries=retries or RetryPolicy(), headers=headers
        )

    @property
    def base_url(self) -> str:
        """Where the service is, without user and password."""
        return self._endpoint.url

    def close(self) -> None:
        """Close the connections. The client cannot be used after that."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _send(self, call: Call[T]) -> T:
        return self._transport.send(call)
