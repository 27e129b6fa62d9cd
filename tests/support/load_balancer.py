"""A load balancer in front of replicas, as HAProxy or an ingress controller is one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import aiohttp
from aiohttp import web

CHECK_SECONDS: Final = 1.0
MAX_FAILED_CHECKS: Final = 2
HOP_BY_HOP: Final = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})


class LoadBalancer:
    """Passes each request to the next replica that is ready. It repeats none.

    Args:
        replicas: their addresses.

    Attributes:
        url: its own address.
    """

    def __init__(self, replicas: Sequence[str]) -> None:
        self.url = ""
        self._failed = dict.fromkeys(replicas, MAX_FAILED_CHECKS)
        self._turn = 0

    async def check(self, session: aiohttp.ClientSession) -> None:
        """Look at the readiness of the replicas until the task is cancelled."""
        while True:
            for replica in self._failed:
                self._failed[replica] = 0 if await _is_ready(session, replica) else self._failed[replica] + 1
            await asyncio.sleep(CHECK_SECONDS)

    def next(self) -> str | None:
        """The replica of the next request; None if no replica is ready."""
        ready = [replica for replica, failed in self._failed.items() if failed < MAX_FAILED_CHECKS]
        self._turn += 1
        return ready[self._turn % len(ready)] if ready else None

    async def forward(self, session: aiohttp.ClientSession, request: web.Request) -> web.StreamResponse:
        """Pass a request to a replica, and its response back."""
        replica = self.next()
        if replica is None:
            return web.Response(status=503, text="no replica is ready")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        body = await request.read()
        response: web.StreamResponse | None = None
        try:
            async with session.request(request.method, replica + request.path_qs, data=body, headers=headers) as found:
                kept = {name: value for name, value in found.headers.items() if name.lower() not in HOP_BY_HOP}
                response = web.StreamResponse(status=found.status, headers=kept)
                await response.prepare(request)
                async for chunk in found.content.iter_any():
                    await response.write(chunk)
        except aiohttp.ClientError as error:
            if response is None:
                return web.Response(status=502, text=f"{type(error).__name__} of {replica}")
            raise
        await response.write_eof()
        return response


async def _is_ready(session: aiohttp.ClientSession, replica: str) -> bool:
    with suppress(aiohttp.ClientError, TimeoutError):
        timeout = aiohttp.ClientTimeout(total=2 * CHECK_SECONDS)
        async with session.get(f"{replica}/health/ready", timeout=timeout) as response:
            return response.status == 200
    return False


@asynccontextmanager
async def load_balancer(replicas: Sequence[str]) -> AsyncIterator[LoadBalancer]:
    """A load balancer on a free port.

    Args:
        replicas: the addresses of the replicas.
    """
    balancer = LoadBalancer(replicas)
    # Compressed responses are passed on as they are.
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(auto_decompress=False, timeout=timeout) as session:

        async def handle(request: web.Request) -> web.StreamResponse:
            return await balancer.forward(session, request)

        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        balancer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        checks = asyncio.create_task(balancer.check(session))
        try:
            yield balancer
        finally:
            checks.cancel()
            with suppress(asyncio.CancelledError):
                await checks
            await runner.cleanup()
