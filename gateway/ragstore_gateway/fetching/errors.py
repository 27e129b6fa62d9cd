"""The errors of the web. No detail has a part of a URL, a header or a page."""

from __future__ import annotations

from typing import ClassVar

from ragstore.kit.errors import ServiceError


class FetchError(ServiceError, abstract=True):
    """A page cannot be fetched."""


class UrlRefused(FetchError):
    """The gateway does not fetch such a URL: its form, scheme, port or user and password are not allowed."""

    status: ClassVar[int] = 400
    title: ClassVar[str] = "URL refused"


class AddressRefused(FetchError):
    """The URL leads to an address that is not public, and its host is not among the allowed ones."""

    status: ClassVar[int] = 422
    title: ClassVar[str] = "Address refused"


class RobotsDisallowed(FetchError):
    """The site's robots.txt does not allow the page, or cannot be read."""

    status: ClassVar[int] = 422
    title: ClassVar[str] = "Disallowed by robots.txt"


class Unreachable(FetchError):
    """No connection to the site could be made: its name has no address, or its server does not accept one."""

    status: ClassVar[int] = 502
    title: ClassVar[str] = "Site unreachable"


class FetchTimeout(FetchError):
    """The response was not complete in time."""

    status: ClassVar[int] = 504
    title: ClassVar[str] = "Fetch timed out"


class TooManyRedirects(FetchError):
    """The site redirects more often than allowed."""

    status: ClassVar[int] = 502
    title: ClassVar[str] = "Too many redirects"


class ResponseTooLarge(FetchError):
    """The response is larger than allowed, as sent or decompressed."""

    status: ClassVar[int] = 502
    title: ClassVar[str] = "Response too large"


class ResponseInvalid(FetchError):
    """The response is not HTTP, breaks off, or has an encoding that cannot be decoded."""

    status: ClassVar[int] = 502
    title: ClassVar[str] = "Response invalid"


class PageUnavailable(FetchError):
    """The site responded with the status of an error."""

    status: ClassVar[int] = 502
    title: ClassVar[str] = "Page unavailable"


class SearchNotConfigured(ServiceError):
    """There is no search engine."""

    status: ClassVar[int] = 501
    title: ClassVar[str] = "Search not configured"


class SearchFailed(ServiceError):
    """The search engine cannot be reached, or its response is an error or of another form."""

    status: ClassVar[int] = 502
    title: ClassVar[str] = "Search failed"


class SearchTimeout(ServiceError):
    """The search engine did not respond in time."""

    status: ClassVar[int] = 504
    title: ClassVar[str] = "Search timed out"


class SearchBusy(ServiceError):
    """The search engine is at its limit."""

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Search engine busy"
    retry_after = 10


class SummaryFailed(ServiceError):
    """The model server responded with an error, or without a summary."""

    status: ClassVar[int] = 502
    title: ClassVar[str] = "Summary failed"


class ModelBusy(ServiceError):
    """The model server is at its limit.

    Args:
        detail: one sentence for the caller.
        seconds: when it accepts requests again.
    """

    status: ClassVar[int] = 503
    title: ClassVar[str] = "Model server busy"

    def __init__(self, detail: str, seconds: int = 1) -> None:
        super().__init__(detail)
        self.retry_after = seconds
