"""`Fetcher`: sends a request to an address that a caller chose."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from ragstore_gateway.web.fetching.fetched import Fetched
from ragstore_gateway.web.fetching.rules import FetchRules


class Fetcher:
    """Fetches URLs within rules. It works while the block of `running` runs.

    It uses no proxy variables, no cookies and no `.netrc`.

    Args:
        rules: the rules.
    """

    def __init__(self, rules: FetchRules) -> None:
        self.rules = rules

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Open the connections; close them at the end."""
        yield

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
    ) -> Fetched:
        """Send a request and read the whole response, whatever its status.

        Redirects are followed. A redirect to another origin gets none of `headers`, and never the body.

        Args:
            url: an absolute URL, http or https.
            method: the method.
            headers: headers of the request beyond the usual ones.
            body: the body of the request.
            timeout_seconds: maximum time of the fetch; that of the rules when None. The lesser one counts.
            max_bytes: maximum size of the body; that of the rules when None. The lesser one counts.
            etag: the `ETag` of the version that the caller has, for a conditional request.
            last_modified: its `Last-Modified`.
            robots: whether robots.txt is honoured, if the rules honour it.

        Returns:
            The response. A conditional request for a page that has not changed has status 304 and no body.

        Raises:
            InvalidRequest: the method or a header is not one of HTTP.
            UrlRefused: the URL, or that of a redirect, is not one that may be fetched.
            AddressRefused: it leads to an address that is not public.
            RobotsDisallowed: robots.txt does not allow it.
            Unreachable: no connection could be made.
            FetchTimeout: the response was not complete in time.
            TooManyRedirects: there were more redirects than allowed.
            ResponseTooLarge: the body is too large.
            ResponseInvalid: the response is not HTTP, breaks off, or cannot be decoded.
        """
        raise NotImplementedError
