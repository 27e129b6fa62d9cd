"""The asynchronous client."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, Unpack, cast

import httpx
from msgspec import UNSET, UnsetType

from ragstore_client._async.collections import CollectionCalls
from ragstore_client._async.documents import DocumentCalls
from ragstore_client._async.handle import AsyncCollectionHandle
from ragstore_client._async.ingest_calls import IngestCalls
from ragstore_client._async.queries import QueryCalls
from ragstore_client._async.service import ServiceCalls
from ragstore_client._async.transport import AsyncTransport
from ragstore_client._call import Call
from ragstore_client._endpoint import endpoint_of_client
from ragstore_client._httpx import parse_timeout, ssl_context
from ragstore_client._options import NO_OPTIONS, CallOptions
from ragstore_client._retries import RetryPolicy

if TYPE_CHECKING:
    from ragstore_client._embedded import EmbeddedService
    from ragstore_client._httpx import AsyncHttpClient

T = TypeVar("T")


class AsyncClient(CollectionCalls, DocumentCalls, IngestCalls, QueryCalls, ServiceCalls):
    """A typed client of one ragstore service, for asyncio. Tasks of one event loop may share it.

    Every call raises `ProblemError` (`NotFound`, `Conflict`, `Unavailable`, ...) when the service responds with an
    error, `TransportError` when no complete response was received, `UnexpectedResponse` when the response does not
    match the contract, and `InvalidInput` when the arguments cannot be sent. Idempotent calls are retried according
    to `retries`. Every call also takes the options of `CallOptions` by name.

    Args:
        base_url: URL of the service; the variable `RAGSTORE_URL` when None, and `http://127.0.0.1:8080` without it.
        api_key: sent as a bearer token; None for no key. The variable `RAGSTORE_API_KEY` when not given.
        timeout: total time limit of one attempt, in seconds. An `httpx.Timeout` limits steps; None limits none.
        retries: the retry policy, or the number of retries; `RetryPolicy()` when None.
        headers: sent with every call.
        transport: the httpx transport; httpx's default when None.
        http: a client of httpx or httpx2 to use instead of a new one; the caller closes it.

    Raises:
        InvalidConfiguration: the URL, the key, the time limit or the retries are not valid.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | UnsetType | None = UNSET,
        timeout: float | httpx.Timeout | None = 30.0,
        retries: RetryPolicy | int | None = None,
        headers: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        http: AsyncHttpClient | None = None,
    ) -> None:
        self._endpoint = endpoint_of_client(base_url, api_key)
        self._owns_http = http is None
        steps = parse_timeout(timeout).steps
        own = http or httpx.AsyncClient(timeout=steps, transport=transport, verify=ssl_context())
        # The interface of httpx2 is the same.
        self._http = cast("httpx.AsyncClient", own)
        self._transport = AsyncTransport(
            self._http, self._endpoint, timeout=timeout, retries=retries, headers=headers, of_ragstore=True
        )
        self._service: EmbeddedService | None = None

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
        client._service = service
        return client

    @property
    def base_url(self) -> str:
        """URL of the service, without user and password."""
        return self._endpoint.url

    def __repr__(self) -> str:
        """The class and the URL."""
        return f"{type(self).__name__}({self.base_url!r})"

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """A client with other options, for one call or some: `client.with_options(timeout=2).query(...)`.

        Args:
            **options: see `CallOptions`; headers are added to this client's, every other option replaces this client's.

        Returns:
            A client that shares the connections of this one, which need not be closed.
        """
        client = copy.copy(self)
        client._owns_http = False
        client._service = None
        client._transport = self._transport.with_options(options)
        return client

    def collection(self, name: str) -> AsyncCollectionHandle:
        """A handle on one collection: this client's calls without the name. No request is sent.

        Args:
            name: name of the collection, which need not exist yet.
        """
        return AsyncCollectionHandle(self, name)

    async def aclose(self) -> None:
        """Close the connections, unless `http` was given. The client cannot be used afterwards."""
        if self._owns_http:
            await self._http.aclose()
        if self._service is not None:
            self._service.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _send(self, call: Call[T], options: CallOptions = NO_OPTIONS) -> T:
        return await self._transport.send(call, options)

    def _lasting(self, seconds: float, options: CallOptions) -> Self:
        """This client with options, and with retries that last for some time."""
        client = self.with_options(**options)
        if "retries" in options:
            return client
        return client.with_options(retries=client._transport.retries.lasting(seconds))
