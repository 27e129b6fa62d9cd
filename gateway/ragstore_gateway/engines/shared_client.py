"""`SharedClient`: one client of an engine for all collections with the same parameters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

import structlog

from ragstore_gateway.secrets.secret_references import SecretReferences

C = TypeVar("C")

Secrets: TypeAlias = Mapping[str, str]
"""The secrets of a configuration, by the name of their parameter."""

IDLE_SECONDS: Final = 600.0
"""Time after which a client that is not used is closed."""

CLOSE_SECONDS: Final = 5.0
"""How long closing a client may take."""

_log = structlog.get_logger(__name__)


@dataclass
class _Lease(Generic[C]):
    client: C
    secrets: Secrets
    users: int = 0


class SharedClient(Generic[C]):
    """Connects on its first use, and again when a secret has changed or after it was idle.

    A replaced client is closed after its last use. A client that cannot be closed fails no call.

    Args:
        connect: makes a client. It sends nothing yet, or fails within its own time limit.
        close: closes one.
        references: the references to secrets, by the name of their parameter.
        secrets: resolves them.
        idle_seconds: time after which a client that is not used is closed.
        close_seconds: how long closing one may take.
    """

    def __init__(
        self,
        connect: Callable[[Secrets], Awaitable[C]],
        close: Callable[[C], Awaitable[None]],
        references: Mapping[str, str],
        secrets: SecretReferences,
        idle_seconds: float = IDLE_SECONDS,
        close_seconds: float = CLOSE_SECONDS,
    ) -> None:
        self._connect = connect
        self._close_client = close
        self._close_seconds = close_seconds
        self._references = dict(references)
        self._secrets = secrets
        self._idle_seconds = idle_seconds
        self._current: _Lease[C] | None = None
        self._lock = asyncio.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def use(self) -> AsyncIterator[C]:
        """The client.

        Raises:
            SecretUnavailable: a secret cannot be read.
        """
        lease = await self._lease()
        try:
            yield lease.client
        finally:
            lease.users -= 1
            if lease is not self._current:
                if not lease.users:
                    await self._close(lease.client)
            elif not lease.users:
                self._timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._close_idle)

    async def aclose(self) -> None:
        """Close the client after its last use. The next use connects again."""
        self._stop_timer()
        retired, self._current = self._current, None
        if retired is not None and not retired.users:
            await self._close(retired.client)

    async def _lease(self) -> _Lease[C]:
        values = {name: (await self._secrets.resolve(text)).reveal() for name, text in self._references.items()}
        async with self._lock:
            if self._current is None or self._current.secrets != values:
                await self.aclose()
                self._current = _Lease(await self._connect(values), values)
            self._stop_timer()
            self._current.users += 1
            return self._current

    async def _close(self, client: C) -> None:
        try:
            async with asyncio.timeout(self._close_seconds):
                await self._close_client(client)
        except Exception as error:  # noqa: BLE001 - whatever a driver raises, the client is not used any more
            _log.warning("client of an engine not closed", error=type(error).__name__)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_idle(self) -> None:
        self._closing = asyncio.get_running_loop().create_task(self.aclose())
