"""What goes wrong during the load: Chroma is killed, hangs, has no room, and the network to it fails."""

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

Strike: TypeAlias = Callable[[float], Awaitable[None]]
"""Makes a fault, and ends it after so many seconds."""


class Setting(Protocol):
    """Chroma as the service has it, and what can be done to it."""

    @property
    def environ(self) -> dict[str, str]:
        """What the service is told of it."""

    @property
    def met(self) -> Counter[str]:
        """How often each fault was made."""

    def strikes(self, service: Served) -> Sequence[Strike]:
        """The faults, which are made in turn."""

    def pid(self, service: Served) -> int:
        """Chroma's process."""

    def rest(self) -> None:
        """Close connections that nobody uses."""


@dataclass
class Embedded:
    """Chroma in a process of the service's."""

    environ: dict[str, str] = field(default_factory=dict)
    met: Counter[str] = field(default_factory=Counter)

    def strikes(self, service: Served) -> Sequence[Strike]:
        """Kill the process, stop it for a while, let it write no more for a while."""

        async def running_process() -> int:
            while True:
                with suppress(LookupError, OSError):  # it is being replaced
                    return chroma_process_of(service)
                await asyncio.sleep(0.05)

        async def kill_process(seconds: float) -> None:
            os.kill(await running_process(), signal.SIGKILL)
            self.met["Chroma's process killed"] += 1
            await asyncio.sleep(seconds)

        async def hang(seconds: float) -> None:
            process = await running_process()
            os.kill(process, signal.SIGSTOP)
            self.met["Chroma's process stopped for a while"] += 1
            await asyncio.sleep(seconds)
            with suppress(ProcessLookupError):  # it was taken for stuck, and replaced
                os.kill(process, signal.SIGCONT)

        async def fill(seconds: float) -> None:
            process = await running_process()
            resource.prlimit(process, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            self.met["no room for what is written"] += 1
            await asyncio.sleep(seconds)
            with suppress(ProcessLookupError):
                resource.prlimit(process, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

        return kill_process, hang, fill

    def pid(self, service: Served) -> int:
        """Chroma's process."""
        return chroma_process_of(service)

    def rest(self) -> None:
        """There are no connections."""


@dataclass
class Remote:
    """A Chroma server behind a proxy.

    Attributes:
        folder: where its data is.
        chroma: the server, now.
        proxy: what stands before it.
    """

    folder: Path
    chroma: Served
    proxy: FaultProxy
    met: Counter[str] = field(default_factory=Counter)

    @property
    def environ(self) -> dict[str, str]:
        """The address of the proxy."""
        return {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{self.proxy.port}"}

    def strikes(self, service: Served) -> Sequence[Strike]:
        """Every fault of the network, and a kill of the server."""

        def failing(fault: Fault) -> Strike:
            async def fail(seconds: float) -> None:
                self.proxy.fault = fault
                before = self.proxy.faults
                await asyncio.sleep(seconds)
                self.proxy.fault = "none"
                self.met[f"network: {fault}"] += self.proxy.faults - before

            return fail

        async def kill_server(seconds: float) -> None:
            kill(self.chroma)
            self.met["Chroma killed"] += 1
            await asyncio.sleep(seconds)
            self.chroma = await asyncio.to_thread(start_chroma, self.folder, urlsplit(self.chroma.url).port)

        return *map(failing, NETWORK), kill_server

    def pid(self, service: Served) -> int:
        """The server's process."""
        return self.chroma.process.pid

    def rest(self) -> None:
        """Close what the service keeps open to Chroma."""
        self.proxy.close()


@asynccontextmanager
async def setting(store: str, folder: Path) -> AsyncIterator[Setting]:
    """Chroma of one kind, for a while."""
    if store == "embedded":
        yield Embedded()
        return
    chroma = await asyncio.to_thread(start_chroma, folder, free_port())
    async with fault_proxy(urlsplit(chroma.url).port or 0) as proxy:
        remote = Remote(folder, chroma, proxy)
        try:
            yield remote
        finally:
            with running(remote.chroma):
                pass


async def strike(strikes: Sequence[Strike], seconds: float) -> None:
    """Make every fault once.

    Args:
        strikes: the faults.
        seconds: how long all of it takes; half of it nothing fails.
    """
    each = seconds / len(strikes) / 2
    for one in strikes:
        await asyncio.sleep(each)
        await one(min(each, 4.0))
    await asyncio.sleep(each)
