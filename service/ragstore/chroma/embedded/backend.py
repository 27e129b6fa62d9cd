"""`EmbeddedBackend`: Chroma's `PersistentClient` in a process of its own, for the service that runs on one machine."""

from __future__ import annotations

import asyncio
import functools
import multiprocessing
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar, cast

import structlog

from ragstore.chroma.backend import (
    CLEARED,
    SYNC_THRESHOLD,
    ChromaFilter,
    QueryResult,
    RecordBatch,
    Records,
    distance_of,
    index_configuration,
)
from ragstore.chroma.embedded import process as chroma_process
from ragstore.chroma.errors import meaning
from ragstore.errors import ChromaTimeout, ChromaUnavailable
from ragstore.kit.context import backend_timing
from ragstore.model.collections import Collection, Distance, StoreStatus
from ragstore.model.metadata import CollectionMetadata
from ragstore.model.vectors import Matrix

if TYPE_CHECKING:
    from ragstore.repair.repairing import Repaired

P = ParamSpec("P")
T = TypeVar("T")

_log = structlog.get_logger(__name__)

CLOSE_SECONDS: Final = 5.0
"""Longest wait for Chroma to finish what it does, when the service ends."""

TURNS: Final = 4
"""Most calls that Chroma's process has at once: it finds its next one when it ends one. The others wait here."""


class EmbeddedBackend:
    """Chroma under a folder of this machine; see `Backend` for what each method does.

    The process is started by the first call that needs it, and again after it died.

    Args:
        path: folder of the data; made when it is not there.
        tenant: Chroma tenant; made when it is not there.
        database: Chroma database; made when it is not there.
        timeout: longest wait for one answer, in seconds.
        sync_threshold: writes to a new collection after which Chroma saves its index.
    """

    conditional: Final = False

    def __init__(
        self, path: str, tenant: str, database: str, timeout: float, sync_threshold: int = SYNC_THRESHOLD
    ) -> None:
        self._place = (path, tenant, database)
        self._sync_threshold = sync_threshold
        self._timeout = timeout
        self._running: tuple[ProcessPoolExecutor, Future[list[Repaired]]] | None = None
        self._max_batch_size: int | None = None
        self._calls: set[Future[object]] = set()
        self._turns = asyncio.Semaphore(TURNS)
        self._progress = 0.0

    async def start(self) -> None:
        """Begin opening the data; does not wait for it."""
        self._process()

    async def close(self) -> None:
        """Let Chroma finish what it does, and end its process."""
        running, self._running = self._running, None
        if running is None:
            return
        pool = running[0]
        processes = list(pool._processes.values())
        try:
            await asyncio.wait_for(
                asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True), min(self._timeout, CLOSE_SECONDS)
            )
        except TimeoutError:
            # It is stuck. Nothing that it was doing has been acknowledged, and killing it loses nothing that was.
            for process in processes:
                process.kill()

    async def status(self) -> StoreStatus:
        """Ask Chroma how it is."""
        version, collections, size = await self._call("", chroma_process.status)
        return StoreStatus("embedded", version, collections, size)

    async def max_batch_size(self) -> int:
        """Most records that Chroma takes in one write."""
        if self._max_batch_size is None:
            self._max_batch_size = await self._call("", chroma_process.max_batch_size)
        return self._max_batch_size

    async def create_collection(self, name: str, metadata: CollectionMetadata, distance: Distance) -> Collection:
        """Create a collection."""
        configuration = index_configuration(distance, self._sync_threshold)
        return _collection(
            await self._call(name, chroma_process.create_collection, name, metadata or None, configuration)
        )

    async def get_collection(self, name: str) -> Collection:
        """Look a collection up."""
        return _collection(await self._call(name, chroma_process.get_collection, name))

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections."""
        return [_collection(found) for found in await self._call("", chroma_process.list_collections, limit, offset)]

    async def count_collections(self) -> int:
        """How many collections there are."""
        return await self._call("", chroma_process.count_collections)

    async def replace_metadata(self, collection_id: str, metadata: CollectionMetadata) -> None:
        """Replace a collection's metadata; it may be empty."""
        await self._call("", chroma_process.replace_metadata, collection_id, metadata or CLEARED)

    async def delete_collection(self, name: str) -> None:
        """Delete a collection."""
        await self._call(name, chroma_process.delete_collection, name)

    async def add(self, collection_id: str, records: RecordBatch, marks: list[str]) -> set[str]:
        """Write records that were looked up. Nobody else has this data, so their ids are still free.

        They are marked all the same: Chroma may fail a write that it has done, when there is no room for what it does
        next, and the mark tells a second attempt that the first one wrote it.
        """
        await self._call("", chroma_process.upsert, collection_id, records, marks)
        return set(records.ids)

    async def marks(self, collection_id: str, ids: list[str]) -> dict[str, str | None]:
        """Which of some ids are taken, and by which add."""
        return await self._call("", chroma_process.marks, collection_id, ids)

    async def withdraw(self, collection_id: str, ids: list[str], mark: str) -> None:
        """Delete records that an add wrote."""
        await self.delete(collection_id, ids)

    async def upsert(self, collection_id: str, records: RecordBatch) -> None:
        """Write records in one transaction."""
        await self._call("", chroma_process.upsert, collection_id, records, None)

    async def get(
        self,
        collection_id: str,
        *,
        ids: list[str] | None = None,
        where: ChromaFilter = None,
        where_document: ChromaFilter = None,
        limit: int | None = None,
        offset: int = 0,
        include: tuple[str, ...] = (),
    ) -> Records:
        """Read records in insertion order."""
        return await self._call(
            "", chroma_process.get, collection_id, ids, where, where_document, limit, offset, include
        )

    async def count(self, collection_id: str) -> int:
        """How many records a collection holds."""
        return await self._call("", chroma_process.count, collection_id)

    async def delete(self, collection_id: str, ids: list[str]) -> None:
        """Delete records."""
        await self._call("", chroma_process.delete, collection_id, ids)

    async def query(
        self,
        collection_id: str,
        embeddings: Matrix,
        n_results: int,
        *,
        where: ChromaFilter = None,
        where_document: ChromaFilter = None,
        include: tuple[str, ...] = (),
    ) -> list[QueryResult]:
        """Find the nearest records for each row of a matrix."""
        return await self._call(
            "", chroma_process.query, collection_id, embeddings, n_results, where, where_document, include
        )

    # -- the process --------------------------------------------------------------------------

    async def _call(self, name: str, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation in Chroma's process.

        Args:
            name: the collection's name, when it is asked for by name.
            operation: a function of `chroma_process`.
            args: what it takes.
            kwargs: what it takes.

        Returns:
            What it returns.
        """
        self._end_when_stuck()
        try:
            async with asyncio.timeout(self._timeout):
                return await self._in_turn(name, functools.partial(operation, *args, **kwargs))
        except TimeoutError:
            raise ChromaTimeout("Chroma did not answer in time") from None

    async def _in_turn(self, name: str, operation: Callable[[], T]) -> T:
        """Wait for a turn, and run an operation in Chroma's process.

        Whoever leaves before the turn comes is forgotten. What was handed over is never taken back: Python 3.11's pool
        stumbles over calls that were when its process dies, and leaves a thread and eight files behind.
        """
        with backend_timing():
            await self._turns.acquire()
        pool, opened = self._process()
        try:
            call: Future[T] | None = None
            try:
                if not opened.done():
                    await asyncio.shield(asyncio.wrap_future(opened))
                opened.result()
                call = self._submit(pool, operation)
            finally:
                if call is None:
                    self._turns.release()
            answer = asyncio.wrap_future(call)
            answer.add_done_callback(_looked_at)
            with backend_timing():
                return await asyncio.shield(answer)
        except BrokenProcessPool:
            self._forget(pool)
            raise ChromaUnavailable("Chroma's process ended; it is started again") from None
        except chroma_process.Refusal as refusal:
            if opened.done() and not opened.cancelled() and opened.exception() is not None:
                self._forget(pool)  # what keeps the data from being opened may pass
                text = refusal.text if refusal.kind == "InUse" else f"The data cannot be opened ({refusal.kind})"
                raise ChromaUnavailable(text) from None
            raise meaning(refusal.kind, refusal.text, collection=name) from None

    def _process(self) -> tuple[ProcessPoolExecutor, Future[list[Repaired]]]:
        """Chroma's process, started when there is none, and the opening of the data."""
        if self._running is None:
            # Spawned, not forked: a fork would take the event loop and its sockets along.
            pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), chroma_process.prepare)
            opened = pool.submit(chroma_process.open_chroma, *self._place)
            opened.add_done_callback(_tell_repairs)
            self._running = (pool, opened)
        return self._running

    def _submit(self, pool: ProcessPoolExecutor, operation: Callable[[], T]) -> Future[T]:
        """Hand an operation to Chroma's process; its turn ends when it ends there, whether or not its caller waits."""
        loop = asyncio.get_running_loop()
        call = pool.submit(operation)
        kept = cast("Future[object]", call)

        def ended() -> None:
            self._turns.release()
            self._calls.discard(kept)
            if not kept.cancelled():
                self._progress = loop.time()

        if not self._calls:
            self._progress = loop.time()
        self._calls.add(kept)
        kept.add_done_callback(lambda _: None if loop.is_closed() else loop.call_soon_threadsafe(ended))
        return call

    def _end_when_stuck(self) -> None:
        """Replace a process that has ended nothing for longer than anybody waits.

        Chroma's threads wait for each other for ever after a full disk, also when there is room again (measured with
        1.5.9). A process that makes no progress is no use to anyone; what it was doing happens whole or not at all.
        """
        if self._running is None or not self._calls:
            return
        if asyncio.get_running_loop().time() - self._progress > self._timeout:
            pool = self._running[0]
            for process in list(pool._processes.values()):
                process.kill()
            self._calls.clear()
            self._forget(pool)

    def _forget(self, pool: ProcessPoolExecutor) -> None:
        """Let the next call start a new process. Calls that still wait are told that theirs has ended."""
        if self._running is not None and self._running[0] is pool:
            self._running = None
            pool.shutdown(wait=False)


def _tell_repairs(opened: Future[list[Repaired]]) -> None:
    """Log what was damaged when the data was opened."""
    if opened.cancelled() or opened.exception() is not None:
        return
    for found in opened.result():
        tell = _log.error if found.problem else _log.warning
        tell(
            "index repaired" if not found.problem else "index damaged",
            collection=found.collection,
            documents=found.documents,
            removed=found.removed or None,
            problem=found.problem or None,
        )


def _looked_at(answer: asyncio.Future[T]) -> None:
    """Take note of an error whose caller has left; asyncio would log it."""
    if not answer.cancelled():
        answer.exception()


def _collection(described: chroma_process.Described) -> Collection:
    collection_id, name, metadata, dimension, configuration = described
    return Collection(collection_id, name, metadata or {}, dimension, distance_of(configuration))
