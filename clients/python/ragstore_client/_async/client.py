"""The client for asynchronous programs."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self, TypeVar

import httpx

from ragstore_client._async.collections import CollectionCalls
from ragstore_client._async.documents import DocumentCalls
from ragstore_client._async.queries import QueryCalls, ServiceCalls
from ragstore_client._async.transport import AsyncTransport
from ragstore_client._call import Call
from ragstore_client._endpoint import DEFAULT_URL, endpoint, ssl_context
from ragstore_client._retries import RetryPolicy

T = TypeVar("T")


class AsyncClient(CollectionCalls, DocumentCalls, QueryCalls, ServiceCalls):
    """A typed client of one ragstore service, for asyncio. Tasks of one event loop may share it.

    It raises what `Client` raises, and tries again as that does.

    Args:
        base_url: where the service is.
        api_key: sent as a bearer token.
        timeout: seconds that a try may take in all.
        retries: when to try again.
        headers: sent with every call.
        transport: what carries requests; httpx's own by default.
        http: an httpx client to use instead of an own one; closing it stays the caller's.

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
        transport: httpx.AsyncBaseTransport | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._endpoint = endpoint(base_url, api_key)
        self._owns_http = http is None
        self._http = http or httpx.AsyncClient(timeout=timeout, transport=transport, verify=ssl_context())
        self._transport = AsyncTransport(
            self._http, self._endpoint, timeout=timeout, retries=retries or RetryPolicy(), headers=headers
        )

    @property
    def base_url(self) -> str:
        """Where the service is, without user and password."""
        return self._endpoint.url

    async def aclose(self) -> None:
        """Close the connections, if they are its own. The client cannot be used after that."""
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
