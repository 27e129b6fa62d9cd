"""Searches of a base, one after the other, in a process of their own, beside a server of embeddings.

    python -m benchmarks.repeated_searches

It prints the address of the server of embeddings. The first line of its input is the address of a base: it is searched
until the input ends. Then the start and the time of each search are printed, in seconds of the monotonic clock.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import msgspec

from tests.support.ingestion import embedding_server


class Search(msgspec.Struct, array_like=True):
    """A search.

    Attributes:
        started: when it was sent, in seconds of the monotonic clock.
        seconds: its time.
    """

    started: float
    seconds: float


@dataclass
class Searcher:
    """The process.

    Attributes:
        embeddings_url: the address of its server of embeddings.
        searches: the searches, once the process has ended.
    """

    process: asyncio.subprocess.Process
    embeddings_url: str
    searches: list[Search] = field(default_factory=list)

    def begin(self, url: str) -> None:
        """Search a base from now on.

        Args:
            url: the address of the base.
        """
        assert self.process.stdin is not None  # noqa: S101  # `searcher` has opened it
        self.process.stdin.write(f"{url}\n".encode())

    async def end(self) -> None:
        """End the searches."""
        printed, _ = await self.process.communicate(b"")
        self.searches = msgspec.json.decode(printed, type=list[Search])

    def times(self, start: float, end: float) -> list[float]:
        """The times of the searches that were sent within a time, in seconds, in order of their size."""
        return sorted(each.seconds for each in self.searches if start <= each.started < end)


@asynccontextmanager
async def searcher() -> AsyncIterator[Searcher]:
    """A process that searches, with a server of embeddings."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "benchmarks.repeated_searches")
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=1 << 28)
    try:
        assert process.stdout is not None  # noqa: S101  # it is a pipe
        yield Searcher(process, (await process.stdout.readline()).decode().strip())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def main() -> None:
    """Serve embeddings, and search."""
    async with embedding_server() as embeddings:
        print(embeddings.url, flush=True)
        url = (await asyncio.to_thread(sys.stdin.readline)).strip()
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        searches: list[tuple[float, float]] = []
        async with httpx.AsyncClient(timeout=120) as client:
            while not ended.done():
                started = time.monotonic()
                body = {"query": f"green tea {len(searches)}", "maxResults": 5}
                (await client.post(f"{url}/query", json=body)).raise_for_status()
                searches.append((started, time.monotonic() - started))
        print(json.dumps(searches))


if __name__ == "__main__":
    asyncio.run(main())
