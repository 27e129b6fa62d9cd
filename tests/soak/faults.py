"""Faults during the load: Chroma is killed, hangs or has no disk space, and the network to it fails."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlsplit

from tests.support.fault_proxy import Fault, FaultProxy, fault_proxy
from tests.support.processes import chroma_process_of, kill
from tests.support.servers import Served, free_port, running, start_chroma

NETWORK: Final[tuple[Fault, ...]] = ("delay", "cut", "half-close", "truncate", "garble", "silence")

FaultInjection: TypeAlias = Callable[[float], Awaitable[None]]
"""Injects a fault, and ends it after the given number of seconds."""


class ChromaUnderTest(Protocol):
    """The Chroma of the service, and the faults that can be injected into it."""

    @property
    def environ(self) -> dict[str, str]:
        """The service's environment variables for it."""

    @property
    def injected(self) -> Counter[str]:
        """Number of injections by fault."""

    def fault_injections(self, service: Served) -> Sequence[FaultInjection]:
        """The faults, to be injected one after the other."""

    def pid(self, service: Served) -> int:
        """Chroma's process."""

    def close_idle_connections(self) -> None:
        """Close idle connections."""


@dataclass
class EmbeddedChroma:
    """Chroma in a process of the service."""

    environ: dict[str, str] = field(default_factory=dict)
    injected: Counter[str] = field(default_factory=Counter)

    def fault_injections(self, service: Served) -> Sequence[FaultInjection]:
        """Kill the process; suspend it for a while; prevent it from writing for a while."""

        async def running_process() -> int:
            while True:
                with suppress(LookupError, OSError):  # it is being replaced
                    return chroma_process_of(service)
                await asyncio.sleep(0.05)

        async def kill_process(seconds: float) -> None:
            os.kill(await running_process(), signal.SIGKILL)
            self.injected["Chroma's process killed"] += 1
            await asyncio.sleep(seconds)

        async def hang(seconds: float) -> None:
            process = await running_process()
            os.kill(process, signal.SIGSTOP)
            self.injected["Chroma's process suspended"] += 1
            await asyncio.sleep(seconds)
            with suppress(ProcessLookupError):  # it was considered hung, and replaced
                os.kill(process, signal.SIGCONT)

        async def fill(seconds: float) -> None:
            process = await running_process()
            resource.prlimit(process, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            self.injected["disk full"] += 1
            await asyncio.sleep(seconds)
            with suppress(ProcessLookupError):
                resource.prlimit(process, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

        return kill_process, hang, fill

    def pid(self, service: Served) -> int:
        """Chroma's process."""
        return chroma_process_of(service)

    def close_idle_connections(self) -> None:
        """There are no connections."""


@dataclass
class RemoteChroma:
    """A Chroma server behind a proxy.

    Attributes:
        folder: the folder of its data.
        chroma: the current server.
        proxy: the proxy in front of it.
    """

    folder: Path
    chroma: Served
    proxy: FaultProxy
    injected: Counter[str] = field(default_factory=Counter)

    @property
    def environ(self) -> dict[str, str]:
        """The address of the proxy."""
        return {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{self.proxy.port}"}

    def fault_injections(self, service: Served) -> Sequence[FaultInjection]:
        """Each fault of the network, and a kill of the server."""

        def network_fault(fault: Fault) -> FaultInjection:
            async def fail(seconds: float) -> None:
                self.proxy.fault = fault
                before = self.proxy.faults
                await asyncio.sleep(seconds)
                self.proxy.fault = "none"
                self.injected[f"network: {fault}"] += self.proxy.faults - before

            return fail

        async def kill_server(seconds: float) -> None:
            kill(self.chroma)
            self.injected["Chroma killed"] += 1
            await asyncio.sleep(seconds)
            self.chroma = await asyncio.to_thread(start_chroma, self.folder, urlsplit(self.chroma.url).port)

        return *map(network_fault, NETWORK), kill_server

    def pid(self, service: Served) -> int:
        """The server's process."""
        return self.chroma.process.pid

    def close_idle_connections(self) -> None:
        """Close the service's connections to Chroma."""
        self.proxy.close()


@asynccontextmanager
async def chroma_under_test(store: str, folder: Path) -> AsyncIterator[ChromaUnderTest]:
    """Run Chroma of one kind while the block runs."""
    if store == "embedded":
        yield EmbeddedChroma()
        return
    chroma = await asyncio.to_thread(start_chroma, folder, free_port())
    async with fault_proxy(urlsplit(chroma.url).port or 0) as proxy:
        remote = RemoteChroma(folder, chroma, proxy)
        try:
            yield remote
        finally:
            with running(remote.chroma):
                pass


async def inject_faults(fault_injections: Sequence[FaultInjection], seconds: float) -> None:
    """Inject each fault once.

    Args:
        fault_injections: the faults.
        seconds: total duration; half of it is free of faults.
    """
    each = seconds / len(fault_injections) / 2
    for one in fault_injections:
        await asyncio.sleep(each)
        await one(min(each, 4.0))
    await asyncio.sleep(each)
