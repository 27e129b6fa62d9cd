"""`FetchRules`: the limits of fetching, and the hosts and ports that are allowed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from ragstore_gateway import __version__

DEFAULT_PORTS: Final = frozenset({80, 443})

USER_AGENT: Final = f"ragstore-gateway/{__version__}"
"""Sent with each request. Groups of a robots.txt for `ragstore-gateway` apply to it."""


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

        Args:
            entries: the entries.

        Raises:
            ValueError: one has another form.
        """
        raise NotImplementedError

    def allows(self, host: str, port: int, ports: frozenset[int]) -> bool:
        """Whether a host is allowed on a port.

        Args:
            host: its name or address in lower case.
            port: the port.
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
