"""`EmbeddedBackend`: Chroma's `PersistentClient` in a process of its own, for a service on a single machine."""

from __future__ import annotations

import asyncio
import functools
import multiprocessing
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from typing import Final, TypeVar, cast

import structlog

from chroma_repair.data_lock import DataInUse
from ragstore.chroma.collection_config import SYNC_THRESHOLD
from ragstore.chroma.embedded import process as chroma_process
from ragstore.chroma.embedded.large_writes import Chunk, receive, split_write
from ragstore.chroma.embedded.pool import processes_of
from ragstore.chroma.embedded.process_memory import MemoryWatch
from ragstore.chroma.embedded.process_metrics import VOLUME
from ragstore.chroma.embedded.running_process import RunningProcess, log_opened
from ragstore.chroma.errors import translate_error
from ragstore.chroma.operations import GetMaxBatchSize, GetRecords, Operation, QueryRecords
from ragstore.errors import ChromaTimeout, ChromaUnavailable
from ragstore.kit.context import backend_timing

T = TypeVar("T")

_log = structlog.get_logger(__name__)

CLOSE_SECONDS: Final = 5.0
"""Maximum wait for Chroma to complete the calls in flight when the service ends."""

LINE_END: Final = "\n"

MAX_CALLS: Final = 4
"""Maximum number of calls in Chroma's process: enough that it finds the next one when it completes one. The others wait
here."""


class EmbeddedBackend:
    """Chroma in a folder of this machine; see `Backend`.

    The process is started by the first call that needs it, and again after it died.

    Args:
        path: folder of the data; created when it does not exist.
        tenant: Chroma tenant; created when it does not exist.
        database: Chroma database; created when it does not exist.
        timeout: maximum wait for one result, in seconds.
        sync_threshold: writes to a new collection after which Chroma saves its index.
        memory: decides when the process has taken too much memory and is restarted.
    """

    has_conditional_add: Final = False

    def __init__(
        self,
        path: str,
        tenant: str,
        database: str,
        timeout: float,
        sync_threshold: int = SYNC_THRESHOLD,
        memory: MemoryWatch | None = None,
    ) -> None:
        self._data = (path, tenant, database, sync_threshold)
        self._timeout = timeout
        self._running: tuple[ProcessPoolExecutor, Future[chroma_process.OpenedData]] | None = None
        self._watched: RunningProcess | None = None
        self._max_batch_size: int | None = None
        self._in_flight: set[Future[object]] = set()
        self._slots = asyncio.Semaphore(MAX_CALLS)
        self._slow = asyncio.Semaphore(1)
        self._last_progress = 0.0
        self._memory = memory or MemoryWatch(0)
        self._restart: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to open the data. Does not wait for it."""
        VOLUME.watch(self._data[0])
        self._process()

    async def close(self) -> None:
        """Let Chroma complete the calls in flight, and end its process."""
        VOLUME.release(self._data[0])
        if self._restart is not None:
            await asyncio.wait({self._restart})
        await self._end_process()

    async def _end_process(self) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        self._release()
        pool = running[0]
        processes = processes_of(pool)
        try:
            await asyncio.wait_for(
                asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True), min(self._timeout, CLOSE_SECONDS)
            )
        except TimeoutError:
            # It hangs. None of the calls in flight has been acknowledged, so killing it loses nothing that was.
            for process in processes:
                process.kill()

    async def call(self, operation: Operation[T]) -> T:
        """Execute an operation in Chroma's process."""
        if isinstance(operation, GetMaxBatchSize):
            if self._max_batch_size is None:
                self._max_batch_size = await self._execute(GetMaxBatchSize())
            return cast("T", self._max_batch_size)
        return await self._execute(operation)

    async def _execute(self, operation: Operation[T]) -> T:
        self._replace_hung_process()
        try:
            async with asyncio.timeout(self._timeout), self._slow if _may_be_slow(operation) else nullcontext():
                return await self._execute_in_slot(operation)
        except TimeoutError:
            raise ChromaTimeout("Chroma did not respond in time") from None

    async def _execute_in_slot(self, operation: Operation[T]) -> T:
        """Wait for a slot, and execute an operation in Chroma's process.

        A caller that is cancelled while it waits leaves the queue. A call that was submitted is never cancelled: Python
        3.11's pool fails on cancelled calls when its process dies, and leaks a thread and eight files.
        """
        chunks, operation = await split_write(operation)
        with backend_timing():
            await self._slots.acquire()
        pool, opened = self._process()
        try:
            submitted: Future[T] | None = None
            try:
                if not opened.done():
                    await asyncio.shield(asyncio.wrap_future(opened))
                opened.result()
                submitted = self._submit(pool, chunks, operation)
            finally:
                if submitted is None:
                    self._slots.release()
            result = asyncio.wrap_future(submitted)
            result.add_done_callback(_retrieve_exception)
            with backend_timing():
                return await asyncio.shield(result)
        except BrokenProcessPool:
            self._drop(pool)
            cause = "the log event `chroma process ended` has its exit code"
            raise ChromaUnavailable("Chroma's process ended; it is being restarted").because(cause) from None
        except chroma_process.ChromaProcessError as error:
            if opened.done() and not opened.cancelled() and opened.exception() is not None:
                self._drop(pool)  # the obstacle may be temporary
                is_in_use = error.kind == DataInUse.__name__
                raise ChromaUnavailable(
                    error.text if is_in_use else f"The data cannot be opened ({error.kind})"
                ).because(f"{self._data[0]}: {error.text.partition(LINE_END)[0]}") from None
            raise translate_error(error.kind, error.text, collection_name=operation.collection_name) from None

    def _process(self) -> tuple[ProcessPoolExecutor, Future[chroma_process.OpenedData]]:
        """Chroma's process, started when there is none, and the opening of the data."""
        if self._running is None:
            # Spawned, not forked: a fork would inherit the event loop and its sockets.
            pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), chroma_process.prepare)
            opened = pool.submit(chroma_process.open_chroma, *self._data)
            opened.add_done_callback(log_opened)
            self._watched = RunningProcess(pool, functools.partial(self._drop, pool))
            self._running = (pool, opened)
        return self._running

    def _submit(self, pool: ProcessPoolExecutor, chunks: Sequence[Chunk], operation: Operation[T]) -> Future[T]:
        """Send an operation to Chroma's process. Its slot is held until it ends there, also without a caller."""
        loop = asyncio.get_running_loop()
        for chunk in chunks:
            pool.submit(receive, chunk)
        submitted = pool.submit(chroma_process.execute, operation)
        call = cast("Future[object]", submitted)

        def end() -> None:
            self._slots.release()
            self._in_flight.discard(call)
            if not call.cancelled():
                self._last_progress = loop.time()
            self._limit_memory()

        if not self._in_flight:
            self._last_progress = loop.time()
        self._in_flight.add(call)
        call.add_done_callback(lambda _: None if loop.is_closed() else loop.call_soon_threadsafe(end))
        return submitted

    def _replace_hung_process(self) -> None:
        """Kill a process that has completed no call for longer than any caller waits, while calls are in flight.

        A process without progress is of no use; each of its calls is applied as a whole or not at all.
        """
        if self._running is None or not self._in_flight:
            return
        if asyncio.get_running_loop().time() - self._last_progress > self._timeout:
            pool = self._running[0]
            if self._watched is not None:
                self._watched.kill(f"no call completed within {self._timeout:g} s")
            self._in_flight.clear()
            self._drop(pool)

    def _limit_memory(self) -> None:
        """Restart a process that has taken too much memory, once the calls in flight are complete.

        Later calls wait for the new one.
        """
        if self._restart is not None or self._watched is None:
            return
        if self._memory.is_exceeded(self._watched.process_id):
            reason = f"it takes more than {self._memory.max_bytes} bytes"
            self._restart = asyncio.create_task(self._restart_process(reason), name="restart-chroma")
            self._restart.add_done_callback(self._restart_done)

    async def _restart_process(self, reason: str) -> None:
        for _ in range(MAX_CALLS):
            await self._slots.acquire()
        try:
            if self._running is not None:
                _log.info("chroma process restarted", reason=reason)
                await self._end_process()
                self._process()
        finally:
            for _ in range(MAX_CALLS):
                self._slots.release()

    def _restart_done(self, restart: asyncio.Task[None]) -> None:
        self._restart = None
        if not restart.cancelled() and restart.exception() is not None:
            _log.error("chroma process not restarted", reason=str(restart.exception()))

    def _release(self) -> None:
        """Stop to watch the process."""
        if self._watched is not None:
            self._watched.release()
            self._watched = None

    def _drop(self, pool: ProcessPoolExecutor) -> None:
        """Let the next call start a new process. Calls that still wait for this one fail when it ends."""
        if self._running is not None and self._running[0] is pool:
            self._running = None
            pool.shutdown(wait=False)


def _may_be_slow(operation: Operation[object]) -> bool:
    """Whether an operation may take seconds. Such ones take turns, so that others are executed in between."""
    return isinstance(operation, (GetRecords, QueryRecords)) and operation.where_document is not None


def _retrieve_exception(result: asyncio.Future[T]) -> None:
    """Retrieve the error of a call whose caller was cancelled. asyncio would log it."""
    if not result.cancelled():
        result.exception()
