"""A web server whose pages a test determines, and a resolver that a test determines."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp.abc import AbstractResolver, ResolveResult

from tests.support.fake_upstream import Behaviour, Exchange, FakeUpstream, responding, serving

HTML = "Content-Type: text/html; charset=utf-8"


async def not_found(exchange: Exchange) -> None:
    """The default: 404."""
    await exchange.respond(b"", status="404 Not Found", headers=["Content-Type: text/plain"])


class FakeSite(FakeUpstream):
    """The server. A behaviour belongs to the last segment of a path."""

    default: Behaviour = staticmethod(not_found)

    @property
    def origin(self) -> str:
        """Its address as a URL."""
        return f"http://{self.address}:{self.port}"

    def page(self, name: str, body: bytes | str, *headers: str, status: str = "200 OK") -> str:
        """Serve a page.

        Returns:
            Its URL.
        """
        content = body.encode() if isinstance(body, str) else body
        has_type = any(header.lower().startswith("content-type:") for header in headers)
        self.on(name, responding(content, status, *headers, *([] if has_type else [HTML])))
        return f"{self.origin}/{name}"

    def redirect(self, name: str, location: str, status: str = "302 Found") -> str:
        """Serve a redirect.

        Returns:
            Its URL.
        """
        return self.page(name, b"", f"Location: {location}", status=status)

    def behave(self, name: str, behaviour: Behaviour) -> str:
        """Serve a behaviour.

        Returns:
            Its URL.
        """
        return f"{self.origin}/{self.on(name, behaviour)}"

    def paths(self) -> list[str]:
        """The targets of all requests, in order."""
        return [request.target for request in self.requests]


@contextmanager
def fake_site(address: str = "127.0.0.1", port: int = 0) -> Iterator[FakeSite]:
    """Run a server while the block runs.

    Args:
        address: the address that it listens on.
        port: its port; a free one when 0.
    """
    site = FakeSite(address)
    with serving(site, port):
        yield site


class Names(AbstractResolver):
    """Resolves names to the addresses of a test: each lookup of a name has the next of its results.

    Args:
        names: the results of each name; the last one repeats.
    """

    def __init__(self, names: dict[str, list[list[str]]]) -> None:
        self.names = names
        self.lookups: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name."""
        results = self.names.get(host)
        if not results:
            raise OSError(f"no name {host}")
        number = self.lookups.count(host)
        self.lookups.append(host)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in results[min(number, len(results) - 1)]
        ]

    async def close(self) -> None:
        """Nothing to close."""
