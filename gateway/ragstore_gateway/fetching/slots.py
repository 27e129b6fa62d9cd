"""Limits of concurrent requests: in all, and to one host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class _Host:
    semaphore: asyncio.Semaphore
    users: int = 0


class Slots:
    """Slots for concurrent requests.

    Args:
        total: maximum number of requests.
        per_host: maximum number of requests to one host.
    """

    def __init__(self, total: int, per_host: int) -> None:
        self._total = asyncio.Semaphore(total)
        self._per_host = per_host
        self._hosts: dict[str, _Host] = {}

    @asynccontextmanager
    async def slot(self, host: str) -> AsyncIterator[None]:
        """Wait for a slot, and hold it while the block runs.

        Args:
            host: the host of the request.
        """
        own = self._hosts.setdefault(host, _Host(asyncio.Semaphore(self._per_host)))
        own.users += 1
        try:
            # The host first: requests that wait for a slow host hold no slot of the others.
            async with own.semaphore, self._total:
                yield
        finally:
            own.users -= 1
            if not own.users:
                del self._hosts[host]
