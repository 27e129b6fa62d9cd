"""`Fetcher`: sends a request to an address that a caller chose."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, Self

import aiohttp
from aiohttp.abc import AbstractResolver
from multidict import CIMultiDict, CIMultiDictProxy

from ragstore_gateway.fetching import metrics
from ragstore_gateway.fetching.addresses import is_public_or_inner
from ragstore_gateway.fetching.bodies import ACCEPT_ENCODING, read_body
from ragstore_gateway.fetching.connections import REFUSED, ThreadResolver, open_session
from ragstore_gateway.fetching.content import content_type
from ragstore_gateway.fetching.errors import (
    FetchError,
    FetchTimeout,
    ResponseInvalid,
    RobotsDisallowed,
    TooManyRedirects,
    Unreachable,
    UrlRefused,
)
from ragstore_gateway.fetching.fetched import Fetched
from ragstore_gateway.fetching.headers import check_request, request_headers
from ragstore_gateway.fetching.robots import FRESH_SECONDS, MAX_ROBOTS_BYTES, Robots, RobotsCache
from ragstore_gateway.fetching.rules import FetchRules
from ragstore_gateway.fetching.slots import Slots
from ragstore_gateway.fetching.urls import Target, address_refused, read_redirect, read_url

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
TO_GET: Final = frozenset({301, 302})
"""Redirects after which a POST becomes a GET."""

SEE_OTHER: Final = 303
NO_BODY: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class _Request:
    """A request, as the redirects before it have made it."""

    target: Target
    method: str
    headers: Mapping[str, str]
    body: bytes


class Fetcher:
    """Fetches URLs within rules. It works while the block of `running` runs.

    It uses no proxy variables, no cookies and no `.netrc`.

    Args:
        resolver: resolves names; the system's when None. Its addresses are checked like any other.
    """

    def __init__(self, rules: FetchRules, resolver: AbstractResolver | None = None) -> None:
        self.rules = rules
        self._own_resolver = resolver
        self._sessions: tuple[aiohttp.ClientSession, aiohttp.ClientSession] | None = None
        self._slots = Slots(rules.max_fetches, rules.max_fetches_per_host)
        self._robots = RobotsCache(rules.user_agent, self._read_robots)

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[Self]:
        """Open the connections; close them at the end."""
        resolver = self._own_resolver or ThreadResolver(self.rules.max_fetches)
        public = open_session(self.rules.address_check, resolver)
        inner = open_session(is_public_or_inner, resolver)
        self._sessions = public, inner
        try:
            yield self
        finally:
            await self._robots.close()
            self._sessions = None
            await public.close()
            await inner.close()
            await resolver.close()

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_seconds: float | None = None,
        max_bytes: int | None = None,
        etag: str = "",
        last_modified: str = "",
        robots: bool = True,
        redirects: bool = True,
    ) -> Fetched:
        """Send a request and read the whole response, whatever its status.

        Redirects are followed, unless the caller does so. A redirect to another origin gets none of `headers`,
        and never the body.

        Args:
            url: an absolute URL, http or https.
            headers: headers of the request beyond the usual ones.
            body: the body of the request.
            timeout_seconds: maximum time of the fetch; the time of the rules when None. The lesser one counts.
            max_bytes: maximum size of the body; the size of the rules when None. The lesser one counts.
            etag: the `ETag` of the version that the caller has, for a conditional request.
            last_modified: its `Last-Modified`.
            robots: whether robots.txt is honoured, if the rules honour it.
            redirects: whether redirects are followed. Otherwise a redirect is returned, without its body.

        Returns:
            The response. A conditional request for a page that has not changed has status 304 and no body.

        Raises:
            InvalidRequest: the method or a header is not one of HTTP.
            UrlRefused: the URL, or the URL of a redirect, may not be fetched.
            AddressRefused: it leads to an address that is not public.
            RobotsDisallowed: robots.txt does not allow it.
            Unreachable: no connection could be made.
            FetchTimeout: the response was not complete in time.
            TooManyRedirects: there were more redirects than allowed.
            ResponseTooLarge: the body is too large.
            ResponseInvalid: the response is not HTTP, breaks off, or cannot be decoded.
        """
        rules = self.rules
        check_request(method, headers or {})
        conditions = {"If-None-Match": etag, "If-Modified-Since": last_modified}
        seconds = min(rules.timeout_seconds, timeout_seconds or rules.timeout_seconds)
        size = min(rules.max_bytes, max_bytes or rules.max_bytes)
        started = time.perf_counter()
        outcome = metrics.CANCELLED
        try:
            request = _Request(read_url(url, rules), method, headers or {}, body)
            async with asyncio.timeout(seconds):
                fetched = await self._follow(
                    request, size, conditions, robots=robots and rules.robots, redirects=redirects
                )
            outcome = metrics.FETCHED if fetched.status < 400 else metrics.ERROR_STATUS
        except TimeoutError:
            outcome = FetchTimeout.code
            raise FetchTimeout(f"The response was not complete within {seconds:g} s") from None
        except FetchError as error:
            outcome = error.code
            raise
        finally:
            metrics.fetch(outcome, time.perf_counter() - started)
        return replace(fetched, url=url)

    async def robots(self, url: str, *, max_age_seconds: float = FRESH_SECONDS) -> Robots:
        """The rules of a site's robots.txt.

        Args:
            url: the URL of any of its pages.
            max_age_seconds: how long ago it may have been read.

        Raises:
            FetchError: the file cannot be read.
        """
        target = read_url(url, self.rules)
        try:
            async with asyncio.timeout(self.rules.timeout_seconds):
                return await self._robots.of(_site(target), max_age_seconds)
        except TimeoutError:
            raise FetchTimeout("The site's robots.txt was not complete in time") from None

    async def _read_robots(self, url: str) -> Fetched:
        request = _Request(read_url(url, self.rules), "GET", {}, b"")
        try:
            async with asyncio.timeout(self.rules.timeout_seconds):
                return await self._follow(request, MAX_ROBOTS_BYTES, {}, robots=False, truncate=True)
        except TimeoutError:
            raise FetchTimeout("The site's robots.txt was not complete in time") from None

    async def _follow(
        self,
        request: _Request,
        max_bytes: int,
        conditions: Mapping[str, str],
        *,
        robots: bool,
        truncate: bool = False,
        redirects: bool = True,
    ) -> Fetched:
        """Send a request, and follow its redirects."""
        for _ in range(self.rules.max_redirects + 1):
            target = request.target
            if robots:
                site = await self._robots.of(_site(target))
                # 24,000 rules with wildcards take 0.3 s.
                if not await asyncio.to_thread(site.allows, str(target.url)):
                    raise RobotsDisallowed("The site's robots.txt does not allow this page")
            async with self._slots.slot(target.host):
                response = await self._send(request, conditions)
                try:
                    location = response.headers.get("Location")
                    if response.status not in REDIRECTS or location is None:
                        return await _read(response, target, max_bytes, truncate=truncate)
                    if not redirects:
                        return self._redirect(response, target, location)
                finally:
                    # The rest of a body that was not read to its end is not worth the connection.
                    response.close()
            request = self._redirected(request, response.status, location)
        raise TooManyRedirects(f"There are more than {self.rules.max_redirects} redirects")

    def _redirect(self, response: aiohttp.ClientResponse, target: Target, location: str) -> Fetched:
        """A redirect that is not followed."""
        url = str(target.url)
        headers = CIMultiDictProxy(CIMultiDict(response.headers))
        leads_to = str(read_redirect(target, location, self.rules).url)
        return Fetched(url, url, response.status, headers, b"", "", "", leads_to)

    def _redirected(self, request: _Request, status: int, location: str) -> _Request:
        """The request that a redirect leads to."""
        target = read_redirect(request.target, location, self.rules)
        method, body, headers = request.method, request.body, request.headers
        if (status == SEE_OTHER and method != "HEAD") or (status in TO_GET and method == "POST"):
            method, body = "GET", b""
            headers = {name: value for name, value in headers.items() if not name.lower().startswith("content-")}
        if target.origin != request.target.origin:
            if body:
                raise UrlRefused("A redirect leads the request's body to another origin")
            headers = {}
        return _Request(target, method, headers, body)

    async def _send(self, request: _Request, conditions: Mapping[str, str]) -> aiohttp.ClientResponse:
        """Send a request, and wait for the head of its response."""
        if self._sessions is None:
            raise Unreachable("The gateway is stopping")
        session = self._sessions[request.target.allowed]
        headers: CIMultiDict[str] = request_headers(self.rules.user_agent, ACCEPT_ENCODING, conditions)
        for name, value in request.headers.items():
            headers[name] = value
        try:
            return await session.request(
                request.method,
                request.target.url,
                headers=headers,
                data=request.body or None,
                allow_redirects=False,
            )
        except aiohttp.ClientConnectorDNSError:
            raise Unreachable("The URL's host has no address") from None
        except (aiohttp.ClientSSLError, aiohttp.ServerFingerprintMismatch):
            raise Unreachable("No secure connection to the site could be made") from None
        except aiohttp.ClientConnectorError as error:
            if REFUSED in str(error.os_error):
                raise address_refused() from None
            raise Unreachable("The site does not accept connections") from None
        except aiohttp.ConnectionTimeoutError:
            raise Unreachable("The site does not accept connections in time") from None
        except aiohttp.InvalidURL:
            raise UrlRefused("The URL is not valid") from None
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            raise ResponseInvalid("The site closed the connection before its response") from None
        except aiohttp.ClientError:
            raise ResponseInvalid("The response is not one of HTTP") from None


async def _read(response: aiohttp.ClientResponse, target: Target, max_bytes: int, *, truncate: bool) -> Fetched:
    """Read the body of a response."""
    if response.status < 200:
        raise ResponseInvalid("The response is not one of HTTP")
    has_body = response.method != "HEAD" and response.status not in NO_BODY
    body = await read_body(response, max_bytes, truncate=truncate) if has_body else b""
    headers = CIMultiDictProxy(CIMultiDict(response.headers))
    media_type, charset = content_type(headers.get("Content-Type", ""), body)
    return Fetched(str(target.url), str(target.url), response.status, headers, body, media_type, charset)


def _site(target: Target) -> str:
    return str(target.url.origin())
