"""The errors of the web. No detail has a part of a URL, a header or a page."""

from __future__ import annotations

from ragstore.kit.errors import ServiceError


class FetchError(ServiceError, abstract=True):
    """A page cannot be fetched."""


class UrlRefused(FetchError, status=400, title="URL refused"):
    """The gateway does not fetch such a URL: its form, scheme, port or user and password are not allowed."""


class AddressRefused(FetchError, status=422, title="Address refused"):
    """The URL leads to an address that is not public, and its host is not among the allowed ones."""


class RobotsDisallowed(FetchError, status=422, title="Disallowed by robots.txt"):
    """The site's robots.txt does not allow the page, or cannot be read."""


class Unreachable(FetchError, status=502, title="Site unreachable"):
    """No connection to the site could be made: its name has no address, or its server does not accept one."""


class FetchTimeout(FetchError, status=504, title="Fetch timed out"):
    """The response was not complete in time."""


class TooManyRedirects(FetchError, status=502, title="Too many redirects"):
    """The site redirects more often than allowed."""


class ResponseTooLarge(FetchError, status=502, title="Response too large"):
    """The response is larger than allowed, as sent or decompressed."""


class ResponseInvalid(FetchError, status=502, title="Response invalid"):
    """The response is not HTTP, breaks off, or has an encoding that cannot be decoded."""


class PageUnavailable(FetchError, status=502, title="Page unavailable"):
    """The site responded with the status of an error."""


class SearchNotConfigured(ServiceError, status=501, title="Search not configured"):
    """There is no search engine."""


class SearchFailed(ServiceError, status=502, title="Search failed"):
    """The search engine cannot be reached, or its response is an error or of another form."""


class SearchTimeout(ServiceError, status=504, title="Search timed out"):
    """The search engine did not respond in time."""


class SearchBusy(ServiceError, status=503, title="Search engine busy", retry_after=10):
    """The search engine is at its limit."""


class SummaryFailed(ServiceError, status=502, title="Summary failed"):
    """The model server responded with an error, or without a summary."""


class ModelBusy(ServiceError, status=503, title="Model server busy"):
    """The model server is at its limit.

    Args:
        detail: one sentence for the caller.
        seconds: when it accepts requests again.
    """

    def __init__(self, detail: str, seconds: int = 1) -> None:
        super().__init__(detail)
        self.retry_after = seconds
