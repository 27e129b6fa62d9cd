"""The connection to a Chroma server: requests of its v2 HTTP API, its limits, its tenant and database.

chromadb's own `AsyncHttpClient` is not used: it has no timeouts, keeps a connection pool for each event loop, sends
embeddings as text where base64 is possible, and costs 50 MiB to import. aiohttp took a fraction of httpx's CPU time for
the same call.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from io import BytesIO
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from ragstore.chroma.errors import ConnectionLost, translate_error
from ragstore.chroma.http.bodies import OVERSIZED, encode_body, payload
from ragstore.chroma.http.causes import connection_cause, response_cause
from ragstore.chroma.http.responses import UNREADABLE, ErrorResponse, PreflightResponse
from ragstore.chroma.http.streamed_body import StreamedBody
from ragstore.errors import ChromaFailed, ChromaTimeout, ChromaUnavailable, TooLargeForChroma
from ragstore.kit.context import backend_timing

T = TypeVar("T")

CONNECT_SECONDS: Final = 5.0
"""Maximum wait for a connection. Longer means that Chroma is unavailable, not that it is busy."""

UNREACHABLE: Final = "Chroma cannot be reached"

TOO_LARGE: Final = 413
"""Status of a request whose body is larger than a server, or a proxy in front of it, accepts."""

BUSY: Final = (429, 502, 503)
"""Statuses of Chroma, or of a proxy in front of it, that mean "later"."""


class _Response(NamedTuple):
    """A response.

    Attributes:
        media_type: its `Content-Type`, without parameters.
        content: its body.
    """

    status: int
    media_type: str
    content: bytes


class _DatabaseGone(ChromaFailed):
    """Chroma came back without the database, so it must be created again."""


def disable_hidden_retry(session: aiohttp.ClientSession) -> None:
    """Keep aiohttp from repeating a request by itself.

    aiohttp silently sends an idempotent request, such as a DELETE, a second time after a lost connection. A deletion
    whose response was lost would be "not found". There is no public switch; a test notices when this private one
    changes.
    """
    session._retry_connection = False


class ChromaConnection:
    """A connection to one database of a Chroma server.

    Args:
        url: the server's address.
        tenant: Chroma tenant; created when it does not exist.
        database: Chroma database; created when it does not exist.
        headers: sent with every request.
        timeout: maximum wait for one response, in seconds.
        connections: maximum number of TCP connections.
        ca_file: file of certificate authorities to trust; empty means the system's.
        headers_of_call: makes further headers for each request, such as a header that continues a trace.
    """

    def __init__(
        self,
        url: str,
        tenant: str,
        database: str,
        *,
        headers: dict[str, str],
        timeout: float,
        connections: int,
        ca_file: str,
        headers_of_call: Callable[[], dict[str, str]] | None,
    ) -> None:
        self._api = url.rstrip("/").removesuffix("/api/v2") + "/api/v2"
        self._address = str(URL(self._api).origin())
        self._tenant = f"/tenants/{quote(tenant, safe='')}"
        self._database = f"{self._tenant}/databases/{quote(database, safe='')}"
        self._names = (tenant, database)
        self._headers = headers
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=min(CONNECT_SECONDS, timeout))
        self._connections = connections
        self._ca_file = ca_file
        self._headers_of_call = headers_of_call
        self._session: aiohttp.ClientSession | None = None
        self._existing: set[str] = set()
        self._preflight: PreflightResponse | None = None
        self._preparing = asyncio.Lock()

    def open(self) -> None:
        """Create the HTTP session. Sends nothing."""
        trusted = ssl.create_default_context(cafile=self._ca_file) if self._ca_file else True
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections, ssl=trusted),
            headers=self._headers,
            timeout=self._timeout,
            auto_decompress=True,
        )
        disable_hidden_retry(self._session)

    async def close(self) -> None:
        """Close all TCP connections."""
        if self._session is not None:
            await self._session.close()

    def database_path(self, suffix: str) -> str:
        """A path below the database's."""
        return f"{self._database}/{suffix}"

    def collection_path(self, *segments: str) -> str:
        """A path below the collections', of segments that are quoted."""
        return "/".join([f"{self._database}/collections", *(quote(segment, safe="") for segment in segments)])

    async def preflight(self) -> PreflightResponse:
        """Chroma's limits. The first call also creates the tenant and the database.

        It takes several requests. Their results are kept, so that a call that is retried continues where it failed.
        """
        if self._preflight is None:
            async with self._preparing:
                if self._preflight is None:
                    tenant, database = self._names
                    await self._ensure(self._tenant, "/tenants", tenant)
                    await self._ensure(self._database, f"{self._tenant}/databases", database)
                    self._preflight = await self._request(PreflightResponse, "GET", "/pre-flight-checks")
        return self._preflight

    async def _ensure(self, path: str, parent: str, name: str) -> None:
        if path not in self._existing:
            if (await self._exchange("GET", path)).status == 404:
                await self._exchange("POST", parent, {"name": name})
            self._existing.add(path)

    async def request(
        self, kind: type[T], method: str, path: str, body: object = None, *, collection_name: str = ""
    ) -> T:
        """Send a request, once the tenant and the database exist.

        It is sent once, except that a database which Chroma has lost is created again, and then the request is
        repeated: Chroma has rejected it, so it was not applied.

        Args:
            kind: type of the response.
            method: HTTP method.
            path: path below the API's root, with its query.
            body: JSON body, if any.
            collection_name: the collection's name, when it is addressed by name.

        Returns:
            The response.
        """
        if self._preflight is None:
            await self.preflight()
        try:
            return await self._request(kind, method, path, body, collection_name=collection_name)
        except _DatabaseGone:
            self._preflight = None
            self._existing.clear()
            await self.preflight()
            return await self._request(kind, method, path, body, collection_name=collection_name)

    async def _request(
        self, kind: type[T], method: str, path: str, body: object = None, *, collection_name: str = ""
    ) -> T:
        """Send a request and decode its response, or raise the error that Chroma returned."""
        response = await self._exchange(method, path, body)
        status, content = response.status, response.content
        if status == TOO_LARGE:
            raise TooLargeForChroma(OVERSIZED)
        if status >= 400:
            try:
                error = msgspec.json.decode(content, type=ErrorResponse)
            except UNREADABLE:
                error = ErrorResponse()
            if error == ErrorResponse():
                raise ChromaFailed("Chroma failed (unknown)").because(self._response_cause(path, response))
            if error.message == f"Database [{self._names[1]}] does not exist":
                raise _DatabaseGone("Chroma lost the database")
            raise translate_error(error.error, error.message, collection_name=collection_name)
        try:
            return msgspec.json.decode(content, type=kind)
        except UNREADABLE:
            cause = self._response_cause(path, response)
            raise ChromaFailed("Chroma returned an unreadable response").because(cause) from None

    def _response_cause(self, path: str, response: _Response) -> str:
        """Why a response is not Chroma's. The path of a request has no content: it holds names and ids."""
        return response_cause(self._address, URL(self._api).path + path, response.status, response.media_type)

    async def _exchange(self, method: str, path: str, body: object = None) -> _Response:
        """Send one HTTP request, once.

        Raises:
            ConnectionLost: the connection ended before the response. The retry layer decides whether to repeat the
            call.
        """
        if self._session is None:
            raise ChromaUnavailable("The store was not started")
        headers = {} if self._headers_of_call is None else self._headers_of_call()
        data: bytes | BytesIO | AsyncIterator[bytes] | None
        if isinstance(body, StreamedBody):
            data = body.blocks()
            headers["Content-Length"] = str(body.size)
        else:
            data = None if body is None else payload(encode_body(body))
        if data is not None:
            headers["Content-Type"] = "application/json"
        # encoded=True: the path is quoted already, and a second quoting would change names.
        url = URL(self._api + path, encoded=True)
        request = self._session.request(method, url, data=data, headers=headers, allow_redirects=False)
        try:
            with backend_timing():
                async with request as response:
                    received = _Response(response.status, response.content_type, await response.read())
        except TimeoutError as error:
            what = "connection" if isinstance(error, aiohttp.ConnectionTimeoutError) else "response"
            cause = f"{self._address}: no {what} in time"
            raise ChromaTimeout("Chroma did not respond in time").because(cause) from None
        except aiohttp.ClientError as error:
            # A ClientConnectorError is a ClientOSError, too, but nothing was sent.
            was_sent = not isinstance(error, aiohttp.ClientConnectorError)
            is_lost = was_sent and isinstance(error, (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError))
            kind = ConnectionLost if is_lost else ChromaUnavailable
            raise kind(UNREACHABLE).because(connection_cause(error, self._address)) from None
        if received.status in BUSY:
            raise ChromaUnavailable("Chroma is too busy").because(self._response_cause(path, received))
        return received
