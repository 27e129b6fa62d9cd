"""The part that the clients of both services share."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar, Unpack, cast

import httpx
from msgspec import UNSET, UnsetType

from ragstore_client._async.base import CallSender
from ragstore_client._async.transport import AsyncTransport
from ragstore_client._call import Call
from ragstore_client._endpoint import DEFAULT_URL, endpoint_of_client
from ragstore_client._httpx import parse_timeout, ssl_context
from ragstore_client._options import NO_OPTIONS, CallOptions
from ragstore_client._retries import RetryPolicy

if TYPE_CHECKING:
    from ragstore_client._httpx import AsyncHttpClient

T = TypeVar("T")


class AsyncServiceClient(CallSender):
    """Base class of the clients: the connections, the options of calls, and closing. Its arguments are the client's."""

    _prefix: ClassVar[str] = "RAGSTORE_"
    _default_url: ClassVar[str] = DEFAULT_URL

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
        self._endpoint = endpoint_of_client(base_url, api_key, prefix=self._prefix, default_url=self._default_url)
        self._owns_http = http is None
        steps = parse_timeout(timeout).steps
        own = http or httpx.AsyncClient(timeout=steps, transport=transport, verify=ssl_context())
        # The interface of httpx2 is the same.
        self._http = cast("httpx.AsyncClient", own)
        self._transport = AsyncTransport(
            self._http, self._endpoint, timeout=timeout, retries=retries, headers=headers, of_ragstore=True
        )

    @property
    def base_url(self) -> str:
        """URL of the service, without user and password."""
        return self._endpoint.url

    def __repr__(self) -> str:
        """The class and the URL."""
        return f"{type(self).__name__}({self.base_url!r})"

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """A client with other options, for one call or some: `client.with_options(timeout=2)`.

        Args:
            **options: see `CallOptions`; headers are added to this client's, every other option replaces this client's.

        Returns:
            A client that shares the connections of this one, which need not be closed.
        """
        client = copy.copy(self)
        client._owns_http = False
        client._transport = self._transport.with_options(options)
        return client

    async def aclose(self) -> None:
        """Close the connections, unless `http` was given. The client cannot be used afterwards."""
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _send(self, call: Call[T], options: CallOptions = NO_OPTIONS) -> T:
        return await self._transport.send(call, options)

    def _lasting(self, seconds: float, options: CallOptions) -> Self:
        """This client with options, and with retries that last for some time."""
        client = self.with_options(**options)
        if "retries" in options:
            return client
        return client.with_options(retries=client._transport.retries.lasting(seconds))
