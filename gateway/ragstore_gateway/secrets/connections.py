"""Connections to other servers: one pool, opened when it is first used."""

from __future__ import annotations

from typing import Final

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

CONNECT_SECONDS: Final = 5.0
KEEPALIVE_SECONDS: Final = 20.0


class Connections:
    """A pool of connections. Belongs to one event loop from its first use on.

    It uses no proxy variables and no `.netrc`: a key is sent to the configured address and nowhere else.
    """

    def __init__(self) -> None:
        self._session: ClientSession | None = None

    @property
    def session(self) -> ClientSession:
        """The session, opened now if it is not open."""
        if self._session is None or self._session.closed:
            self._session = ClientSession(
                connector=TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS),
                cookie_jar=DummyCookieJar(),
                # Each request has a deadline of its own.
                timeout=ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                trust_env=False,
            )
        return self._session

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def __aenter__(self) -> Connections:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
