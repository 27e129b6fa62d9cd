"""The upstream: a server with OpenAI's API."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import unquote, urlsplit

import aiohttp
import structlog
from multidict import CIMultiDict
from yarl import URL

from ragstore.kit.byte_budget import FREE_BYTES
from ragstore.kit.context import backend_timing
from ragstore.kit.tracing.spans import outgoing_headers, span
from ragstore_gateway.api.piecewise import pieces_of
from ragstore_gateway.chat.metrics import FIRST_BYTE_SECONDS, upstream_failure
from ragstore_gateway.errors import NotConfigured, UpstreamFailed, UpstreamTimeout, UpstreamUnreachable
from ragstore_gateway.settings import Settings, variable

CONNECT_SECONDS: Final = 5.0
"""Maximum wait for a connection."""

KEEPALIVE_SECONDS: Final = 4.0
"""Time that an idle connection is kept. Servers on uvicorn close theirs after 5 s: a request that is sent just then is
lost, and a chat cannot be repeated safely."""

CONNECT_RETRIES: Final = (0.05, 0.25)
"""Waits before a connection is tried again, in seconds. Nothing was sent, so this is safe for every request."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
"""Methods that are repeated when the connection is lost before the response."""

_SKIPPED: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""Headers that aiohttp would add where the caller sent none."""

_log = structlog.get_logger(__name__)


class Upstream:
    """Sends requests to the upstream. It works while the block of `running` runs.

    Attributes:
        authorization: the gateway's own credentials; empty for none.
    """

    def __init__(self, settings: Settings) -> None:
        self._base, self.authorization = _base_and_credentials(settings.upstream_url, settings.upstream_key)
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=settings.upstream_timeout_seconds
        )
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Open the session; close all connections at the end."""
        self._session = aiohttp.ClientSession(
            # The number of requests has a limit already. Cookies of one caller must not reach another.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
            auto_decompress=False,
            skip_auto_headers=_SKIPPED,
            trust_env=False,
            max_line_size=64 * 1024,
            max_field_size=64 * 1024,
        )
        # aiohttp repeats idempotent requests by itself, and has no public switch for that. `send` repeats some.
        self._session._retry_connection = False
        try:
            yield
        finally:
            await self._session.close()
            self._session = None

    def check(self) -> None:
        """Check that there is an upstream.

        Raises:
            NotConfigured: there is none.
        """
        if not self._base:
            raise NotConfigured(
                f"There is no model server: set {variable('upstream_url')} to the base URL of an OpenAI-compatible "
                "API, such as http://127.0.0.1:4000/v1"
            )

    async def send(
        self, method: str, target: str, headers: CIMultiDict[str], body: bytes = b"", *, decompress: bool = False
    ) -> aiohttp.ClientResponse:
        """Send a request and wait for the head of its response.

        Args:
            target: the path below the base URL with its query, encoded.
            headers: the headers, without headers of the connection.
            decompress: whether to decompress the response's body.

        Returns:
            The response, whatever its status. The caller releases it.

        Raises:
            NotConfigured: there is no upstream.
            UpstreamUnreachable: no connection could be made, or it was lost.
            UpstreamTimeout: there is no response in time.
            UpstreamFailed: the response is not HTTP.
        """
        self.check()
        attributes = {"server.address": URL(self._base).host or "", "http.request.method": method}
        # The path is no attribute: it may name what an account stores.
        with span("upstream", "client", attributes) as describe:
            traced = headers.copy()
            traced.update(outgoing_headers())
            if len(body) > FREE_BYTES:
                # The size of pieces is unknown otherwise.
                traced["Content-Length"] = str(len(body))
            response = await self._response(method, target, traced, body, decompress=decompress)
            describe("http.response.status_code", response.status)
            return response

    async def _response(
        self, method: str, target: str, headers: CIMultiDict[str], body: bytes, *, decompress: bool
    ) -> aiohttp.ClientResponse:
        """The response with its head; see `send`."""
        session = self._session
        if session is None:
            raise UpstreamUnreachable("The gateway is stopping")
        url = URL(self._base + target, encoded=True)
        waits = list(CONNECT_RETRIES)
        repeats = 1 if method in SAFE_METHODS else 0
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                with backend_timing():
                    response = await session.request(
                        method,
                        url,
                        headers=headers,
                        # A large body is sent in pieces, between which other requests run. aiohttp 3.14 copies a
                        # `BytesIO` to know its size, which is 30 ms for 31 MB.
                        data=pieces_of([body]) if len(body) > FREE_BYTES else body or None,
                        allow_redirects=False,
                        auto_decompress=decompress,
                    )
            except aiohttp.ClientConnectorError as error:
                if waits:
                    await asyncio.sleep(waits.pop(0))
                    continue
                raise _failure(
                    UpstreamUnreachable, "The model server cannot be reached", "unreachable", error
                ) from None
            except TimeoutError as error:
                raise _failure(UpstreamTimeout, "The model server did not respond in time", "timeout", error) from None
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                if repeats:
                    repeats -= 1
                    continue
                detail = "The model server closed the connection before its response"
                raise _failure(UpstreamUnreachable, detail, "disconnected", error) from None
            except aiohttp.ClientError as error:
                raise _failure(UpstreamFailed, "The model server's response is not HTTP", "garbage", error) from None
            FIRST_BYTE_SECONDS.observe(loop.time() - started)
            return response


def _failure(
    kind: type[UpstreamUnreachable] | type[UpstreamTimeout] | type[UpstreamFailed],
    detail: str,
    reason: str,
    error: BaseException,
) -> UpstreamUnreachable | UpstreamTimeout | UpstreamFailed:
    """The error of a failed request. Texts of aiohttp may repeat what the upstream sent, so only the type is logged."""
    upstream_failure(reason)
    _log.warning("upstream failed", reason=reason, error=type(error).__name__)
    return kind(detail)


def _base_and_credentials(url: str, key: str) -> tuple[str, str]:
    """The base URL without user and password, and the value of `Authorization`."""
    parts = urlsplit(url)
    authorization = f"Bearer {key}" if key else ""
    if parts.username is not None and not key:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    # A server's address without a path, as LITELLM_BASE has it.
    path = plain.path.rstrip("/") or ("/v1" if url else "")
    return plain._replace(path=path).geturl(), authorization
