"""The asynchronous client."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import TracebackType
from typing import Self, TypeVar

import httpx

from ragstore_client._async.collections import CollectionCalls
from ragstore_client._async.documents import DocumentCalls
from ragstore_client._async.queries import QueryCalls
from ragstore_client._async.service import ServiceCalls
from ragstore_client._async.transport import AsyncTransport
from ragstore_client._call import Call
from ragstore_client._endpoint import DEFAULT_URL, parse_endpoint
from ragstore_client._httpx import ssl_context
from ragstore_client._retries import RetryPolicy

T = TypeVar("T")


class AsyncClient(CollectionCalls, DocumentCalls, QueryCalls, ServiceCalls):
    """A typed client of one ragstore service, for asyncio. Tasks of one event loop may share it.

    Every call raises `ProblemError` (`NotFound`, `Conflict`, `Unavailable`, ...) when the service responds with an
    error, `TransportError` when no complete response was received, `UnexpectedResponse` when the response does not
    match the contract, and `InvalidInput` when the arguments cannot be sent. Idempotent calls are retried according
    to `retries`.

    Args:
        base_url: URL of the service.
        api_key: sent as a bearer token.
        timeout: total time limit of one attempt, in seconds.
        retries: the retry policy; `RetryPolicy()` when None.
        headers: sent with every call.
        transport: the httpx transport; httpx's default when None.
        http: an httpx client to use instead of a new one; the caller closes it.

    Raises:
        InvalidConfiguration: the URL or the key is not valid.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeout: float = 30.0,
        retries: RetryPolicy | None = None,
        headers: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._endpoint = parse_endpoint(base_url, api_key)
        self._owns_http = http is None
        self._http = http or httpx.AsyncClient(timeout=timeout, transport=transport, verify=ssl_context())
        self._transport = AsyncTransport(
            self._http, self._endpoint, timeout=timeout, retries=retries or RetryPolicy(), headers=headers
        )

    @property
    def base_url(self) -> str:
        """URL of the service, without user and password."""
        return self._endpoint.url

    def with_options(
        self,
        *,
        timeout: float | None = None,
        retries: RetryPolicy | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """A client with other options, for one call or some: `client.with_options(timeout=2).query(...)`.

        Args:
            timeout: time limit of one attempt, in seconds; this client's when None.
            retries: the retry policy; this client's when None.
            headers: sent with every call in addition to this client's, such as `x-request-id` and `traceparent`.

        Returns:
            A client that shares the connections of this one, which need not be closed.
        """
        client = copy.copy(self)
        client._owns_http = False
        client._transport = self._transport.with_options(timeout=timeout, retries=retries, headers=headers)
        return client

    async def aclose(self) -> None:
        """Close the connections, unless `http` was given. The client cannot be used afterwards."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _send(self, call: Call[T]) -> T:
        return await self._transport.send(call)
