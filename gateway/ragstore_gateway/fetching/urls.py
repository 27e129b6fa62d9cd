"""Reads URLs strictly, so that no other program can read another host in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from yarl import URL

from ragstore_gateway.fetching.errors import AddressRefused, UrlRefused
from ragstore_gateway.fetching.rules import FetchRules

MAX_URL_LENGTH: Final = 4096
MAX_HOST_LENGTH: Final = 253

DEFAULT_PORT: Final = {"http": 80, "https": 443}

_AUTHORITY: Final = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[^\[\]:@%/?#]+)(:[0-9]{1,5})?(?=[/?#]|$)", re.IGNORECASE)
"""A scheme, a host and a port, with nothing else between them."""

_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f\\]")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes.

    Attributes:
        url: the URL, without a fragment.
        host: its host: a name in lower case, or an address.
        allowed: whether the settings allow the host to have an inner address.
    """

    url: URL
    host: str
    port: int
    allowed: bool

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port."""
        return self.url.scheme, self.host, self.port


def read_url(text: str, rules: FetchRules) -> Target:
    """Read a URL.

    Args:
        text: an absolute URL.
        rules: the ports and hosts that are allowed.

    Returns:
        Where the request goes.

    Raises:
        UrlRefused: the URL is not one of a web page, or its port is not allowed.
        AddressRefused: its host is an address that is not public.
    """
    if len(text) > MAX_URL_LENGTH:
        raise UrlRefused(f"The URL has more than {MAX_URL_LENGTH} characters")
    if _FORBIDDEN.search(text):
        raise UrlRefused("The URL has a space, a backslash or a control character")
    if _AUTHORITY.match(text) is None:
        raise UrlRefused("The URL is not http:// or https://, a host without user and password, and a path")
    try:
        url = URL(text).with_fragment(None)
        host, port = url.raw_host or "", url.port
    except (ValueError, UnicodeError):
        raise UrlRefused("The URL is not valid") from None
    if port is None or url.raw_user is not None or url.raw_password is not None or len(str(url)) > 3 * MAX_URL_LENGTH:
        raise UrlRefused("The URL is not valid")
    host = read_host(host)
    allowed = rules.allowed.allows(host, port, rules.ports)
    if not allowed:
        if port not in rules.ports:
            raise UrlRefused("The URL's port is not allowed")
        literal = _literal(host)
        if literal is not None and not rules.address_check(literal):
            raise address_refused()
    return Target(url.with_host(host), host, port, allowed)


def read_redirect(source: Target, location: str, rules: FetchRules) -> Target:
    """Read the target of a redirect.

    Args:
        source: the page that redirects.
        location: an absolute or a relative URL.
        rules: the ports and hosts that are allowed.

    Raises:
        UrlRefused: see `read_url`.
        AddressRefused: see `read_url`.
    """
    # Servers send spaces where %20 belongs.
    location = location.strip(" ").replace(" ", "%20")
    if len(location) > MAX_URL_LENGTH or _FORBIDDEN.search(location):
        raise UrlRefused("The URL of a redirect is not valid")
    if _SCHEME.match(location):
        return read_url(location, rules)
    if location.startswith("//"):
        return read_url(f"{source.url.scheme}:{location}", rules)
    try:
        return read_url(str(source.url.join(URL(location))), rules)
    except (ValueError, UnicodeError):
        raise UrlRefused("The URL of a redirect is not valid") from None


def read_host(text: str) -> str:
    """Read a host: a name of DNS, or an address in its usual form.

    Args:
        text: the host, IPv6 without brackets.

    Returns:
        The host in lower case, without a dot at the end.

    Raises:
        UrlRefused: it is neither. Octal, hexadecimal and shortened addresses are not.
    """
    host = text.lower().removesuffix(".")
    try:
        literal = _literal(host)
    except ValueError:
        raise UrlRefused("The URL's address is not in its usual form") from None
    if literal is not None:
        return str(literal)
    labels = host.split(".")
    if len(host) > MAX_HOST_LENGTH or not all(_LABEL.fullmatch(label) for label in labels):
        raise UrlRefused("The URL's host is not valid")
    return host


def address_refused() -> AddressRefused:
    """The error for an address that no connection is made to."""
    return AddressRefused("The URL leads to an address that is not public")


def _literal(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is; None for a name.

    Raises:
        ValueError: the host looks like an address, and is none in the usual form.
    """
    if ":" not in host and not _NUMBER.fullmatch(host.rpartition(".")[2]):
        return None
    if "%" in host:
        raise ValueError("zone")
    return ip_address(host)
