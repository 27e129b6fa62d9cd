"""Outgoing connections to untrusted hosts. Each address is checked when its socket is made, however it was resolved."""

from __future__ import annotations

import asyncio
import errno
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from ragstore_gateway.fetching.addresses import AddressCheck

CONNECT_SECONDS: Final = 5.0
KEEPALIVE_SECONDS: Final = 5.0
DNS_CACHE_SECONDS: Final = 10
MAX_ADDRESSES: Final = 8
"""Addresses of a name that are tried."""

MAX_LINE_BYTES: Final = 16 * 1024
"""Maximum size of a status line or of one header."""

REFUSED: Final = "address refused by the gateway"
"""Text of the error for a refused address. It is found in the combined error of several addresses, too."""


class ThreadResolver(AbstractResolver):
    """Resolves names in threads of its own: slow name servers of strangers cannot occupy the threads of the process.

    Args:
        threads: maximum number of concurrent lookups.
    """

    def __init__(self, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="resolve")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Look the addresses of a name up.

        Args:
            host: the name.
            family: the family of the addresses.

        Raises:
            OSError: it has none.
        """
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(
            self._executor, lambda: socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
        )
        return [
            ResolveResult(
                hostname=host,
                host=str(sockaddr[0]),
                port=port,
                family=found_family,
                proto=proto,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for found_family, _, proto, _, sockaddr in found[:MAX_ADDRESSES]
        ]

    async def close(self) -> None:
        """End the threads."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def open_session(check: AddressCheck, resolver: AbstractResolver) -> aiohttp.ClientSession:
    """Open a pool of connections.

    Args:
        check: which addresses a connection may be made to.
        resolver: resolves names. It is not called for addresses, so that it cannot check them.
    """

    def create_socket(info: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, proto, _, sockaddr = info
        try:
            permitted = check(ip_address(str(sockaddr[0])))
        except ValueError:
            permitted = False
        if not permitted:
            raise OSError(errno.EACCES, REFUSED)
        return socket.socket(family, kind, proto)

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0,
            keepalive_timeout=KEEPALIVE_SECONDS,
            resolver=resolver,
            ttl_dns_cache=DNS_CACHE_SECONDS,
            socket_factory=create_socket,
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        # Each fetch has a deadline of its own.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        trust_env=False,
        max_line_size=MAX_LINE_BYTES,
        max_field_size=MAX_LINE_BYTES,
    )
