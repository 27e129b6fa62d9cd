"""`FetchRules`: the limits of fetching, and the hosts and ports that are allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Self

from ragstore_gateway import __version__
from ragstore_gateway.fetching.addresses import AddressCheck, is_public

DEFAULT_PORTS: Final = frozenset({80, 443})

USER_AGENT: Final = f"ragstore-gateway/{__version__}"
"""Sent with each request. Groups of a robots.txt for `ragstore-gateway` apply to it."""


_ENTRY: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Hosts that may have addresses of an inner network.

    Attributes:
        hosts: names or addresses in lower case, which are allowed on the ports for every host.
        endpoints: pairs of such a name and a further port.
    """

    hosts: frozenset[str] = frozenset()
    endpoints: frozenset[tuple[str, int]] = frozenset()

    @classmethod
    def parse(cls, entries: Iterable[str]) -> Self:
        """Read entries such as `intranet.example`, `intranet.example:8080`, `10.0.0.5`, `[fd00::1]:8080`.

        Raises:
            ValueError: one has another form.
        """
        hosts: set[str] = set()
        endpoints: set[tuple[str, int]] = set()
        for entry in filter(None, map(str.strip, entries)):
            found = _ENTRY.fullmatch(entry)
            if found is None:
                raise ValueError("not a host, or a host and a port")
            host = _normalized((found[1] or found[2]).lower())
            if found[3] is None:
                hosts.add(host)
            else:
                endpoints.add((host, int(found[3])))
        return cls(frozenset(hosts), frozenset(endpoints))

    def allows(self, host: str, port: int, ports: frozenset[int]) -> bool:
        """Whether a host is allowed on a port.

        Args:
            host: its name or address in lower case.
            ports: the ports for every host.
        """
        return (host in self.hosts and port in ports) or (host, port) in self.endpoints


@dataclass(frozen=True, slots=True)
class FetchRules:
    """The limits of fetching.

    Attributes:
        timeout_seconds: maximum time of a fetch: waiting for a slot, robots.txt, redirects and the body included.
        max_bytes: maximum size of a body, as sent and decompressed.
        max_redirects: maximum number of redirects of a fetch.
        max_fetches: maximum number of concurrent fetches.
        max_fetches_per_host: maximum number of concurrent fetches from one host.
        ports: the ports for every host.
        allowed: hosts that may have addresses of an inner network.
        robots: whether robots.txt is honoured.
        user_agent: sent with each request.
        address_check: which addresses a host may have that is not among the allowed ones.
    """

    timeout_seconds: float = 15.0
    max_bytes: int = 5 * 1024 * 1024
    max_redirects: int = 5
    max_fetches: int = 16
    max_fetches_per_host: int = 2
    ports: frozenset[int] = DEFAULT_PORTS
    allowed: AllowedHosts = AllowedHosts()
    robots: bool = True
    user_agent: str = USER_AGENT
    address_check: AddressCheck = is_public


def _normalized(host: str) -> str:
    """An address in its usual form; a name without a dot at the end.

    Raises:
        ValueError: it is an address that is not valid.
    """
    if ":" in host or host.rpartition(".")[2].isdigit():
        return str(ip_address(host))
    return host.removesuffix(".")
