"""The errors of fetching. No detail has a part of a URL, a header or a page."""

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
