"""`WorkerPool`: processes that are started when they are needed and kept for the next work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ragstore.kit.time_slices import rest
from ragstore_gateway.errors import ExtractionUnavailable
from ragstore_gateway.extraction.worker import Worker

IDLE_SECONDS: Final = 60.0
"""How long a process without work is kept. It has 40 MB of memory, or 115 MB after it has counted tokens."""

STOPPING: Final = "The gateway is shutting down"


class WorkerPool:
    """Processes of one program.

    Args:
        program: its module.
        memory_bytes: maximum memory of a process.
        concurrency: maximum number of processes.

    Attributes:
        slots: acquired by the caller for the time in which it uses a process.
        is_running: whether processes may be started.
    """

    def __init__(self, program: str, memory_bytes: int, concurrency: int) -> None:
        self.slots = asyncio.Semaphore(concurrency)
        self.is_running = False
        self._forking = asyncio.Lock()
        self._program = program
        self._memory_bytes = memory_bytes
        self._idle: dict[Worker, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._workers: set[Worker] = set()

    @property
    def workers(self) -> frozenset[Worker]:
        """The processes that run now."""
        return frozenset(self._workers)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Allow processes to start, and kill all of them at the end."""
        self.is_running = True
        try:
            yield
        finally:
            self.is_running = False
            for timer in self._idle.values():
                timer.cancel()
            self._idle.clear()
            await asyncio.gather(*(worker.stop() for worker in self._workers), *self._ending)
            self._workers.clear()

    def take_idle(self) -> Worker | None:
        """A process that has worked before; None if there is none."""
        while self._idle:
            worker, timer = self._idle.popitem()
            timer.cancel()
            if worker.alive:
                return worker
            self._workers.discard(worker)
        return None

    async def start(self) -> Worker:
        """A new process.

        Raises:
            ExtractionUnavailable: it does not start, or the gateway is shutting down.
        """
        # A fork takes up to 30 ms of the event loop. Other requests run between two forks.
        async with self._forking:
            await rest()
        if self.is_running:
            worker = await Worker.start(self._memory_bytes, self._program)
            if self.is_running:
                self._workers.add(worker)
                return worker
            await worker.stop()
        raise ExtractionUnavailable(STOPPING)

    async def release(self, worker: Worker, *, reusable: bool) -> None:
        """Keep a process for the next work, or kill it.

        Args:
            worker: the process.
            reusable: whether to keep it.
        """
        if reusable and self.is_running:
            self._idle[worker] = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._expire, worker)
        else:
            self._workers.discard(worker)
            await worker.stop()

    def _expire(self, worker: Worker) -> None:
        """End a process that has had no work for a while."""
        if self._idle.pop(worker, None) is not None:
            self._workers.discard(worker)
            task = asyncio.create_task(worker.stop(), name="end-idle-process")
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
