"""`Rebuilds`: new indexes for collections of embedded Chroma, while they are read and written.

Chroma cannot rebuild an index, so a rebuild copies the collection to a hidden one, and exchanges their names:

1. The ids of all documents are read under the collection's lock. From then on, changes are recorded.
2. The documents are copied in this order, without the lock. Recorded changes are applied until few are left.
3. Under the lock, the last changes are applied, the ids of both collections are compared, and the names are exchanged
   in one operation.
4. The old collection is deleted when no read of it is in progress.

A failure before the exchange leaves the old collection as it is, and a failure after it the new one. The hidden
collections that a kill leaves behind are removed after the next start, or before the next rebuild.

Other clients of a Chroma server may write without this lock, so an index is rebuilt only in embedded Chroma.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec
import structlog

from ragstore.chroma.change_recorder import ChangeRecorder, Changes
from ragstore.chroma.collection_cache import CollectionCache
from ragstore.chroma.collection_copy import CollectionCopy
from ragstore.chroma.errors import StaleCollectionId
from ragstore.chroma.operations import (
    CreateCollection,
    DeleteCollection,
    ExchangeNames,
    GetCollection,
    GetRecords,
    ListCollections,
    RestoreNames,
)
from ragstore.chroma.rebuild_names import COPY_PREFIX, NAME_KEY, REPLACED_PREFIX, copy_name, replaced_name
from ragstore.chroma.steps import MAX_PAGE, ScanProgress, delete_lists_in_steps
from ragstore.errors import ChromaFailed, CollectionNotFound, RebuildNotFound, RebuildRunning, RebuildUnsupported
from ragstore.kit.background import cancel_all
from ragstore.kit.errors import ServiceError
from ragstore.kit.weak_registry import WeakRegistry
from ragstore.model.collections import Collection, HnswParameters
from ragstore.model.index_check import CheckedStore, check_index
from ragstore.model.rebuilds import Rebuild

FEW_CHANGES: Final = 200
"""Number of changes that are applied under the collection's lock. Replacing one takes embedded Chroma 5 to 10 ms."""

MAX_ROUNDS: Final = 20
"""Maximum number of times that changes are applied without the lock. Then the writers wait."""

POLL_SECONDS: Final = 0.2

_log = structlog.get_logger(__name__)


class Rebuilds:
    """Rebuilds of a store's collections, and their states since the store was created.

    Args:
        store: the store, for checks of the indexes.
        backend: Chroma.
        cache: the store's lookups of collections.
        locks: the store's locks of collections, by name.
        max_batch_size: gets the maximum number of documents in a call.
    """

    def __init__(
        self,
        store: CheckedStore,
        backend: ChangeRecorder,
        cache: CollectionCache,
        locks: WeakRegistry[asyncio.Lock],
        max_batch_size: Callable[[], Awaitable[int]],
    ) -> None:
        self._store = store
        self._backend = backend
        self._cache = cache
        self._locks = locks
        self._max_batch_size = max_batch_size
        self._rebuilds: dict[str, Rebuild] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._removing = asyncio.Lock()
        self._in_use: set[str] = set()

    def open(self) -> None:
        """Remove what an earlier process left behind, in the background."""
        if not self._backend.has_conditional_add:
            self._run_in_background(self._remove_remains())

    async def close(self) -> None:
        """Cancel what is in progress."""
        await cancel_all(self._tasks)

    async def start(self, name: str, hnsw: HnswParameters, sample: int) -> Rebuild:
        """Begin to rebuild an index.

        Args:
            name: the collection.
            hnsw: parameters of the new index; a None leaves the parameter as it is.
            sample: number of documents that are looked for in the old index and in the new one.

        Returns:
            The state, which changes.

        Raises:
            CollectionNotFound: the collection does not exist.
            RebuildUnsupported: Chroma is a server.
            RebuildRunning: the index is being rebuilt.
        """
        collection = await self._cache.refresh(name)
        if self._backend.has_conditional_add:
            raise RebuildUnsupported
        known = self._rebuilds.get(name)
        if known is not None and known.status == "running":
            raise RebuildRunning(name)
        rebuild = self._rebuilds[name] = Rebuild(name)
        given = {key: value for key, value in msgspec.structs.asdict(hnsw).items() if value is not None}
        merged = msgspec.structs.replace(collection.hnsw, **given)
        self._run_in_background(self._run(rebuild, msgspec.structs.replace(collection, hnsw=merged), sample))
        return rebuild

    def get(self, name: str) -> Rebuild:
        """The state of the latest rebuild of an index.

        Raises:
            RebuildNotFound: there was none since the store was created.
        """
        try:
            return self._rebuilds[name]
        except KeyError:
            raise RebuildNotFound(name) from None

    def forget(self, name: str) -> None:
        """Drop the state of a rebuild of a collection that was deleted. If it runs, it fails."""
        self._rebuilds.pop(name, None)

    # -- implementation -----------------------------------------------------------------------

    def _run_in_background(self, work: Awaitable[None]) -> None:
        """Run something in a context of its own: it belongs to no request, and has no deadline or trace of one."""

        async def run() -> None:
            await work

        task = asyncio.get_running_loop().create_task(run(), context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, rebuild: Rebuild, wanted: Collection, sample: int) -> None:
        """Rebuild an index, and check it before and after."""
        name = wanted.name
        try:
            await self._remove_remains()
            rebuild.before = await check_index(self._store, name, sample)
            await self._rebuild(rebuild, wanted)
            with suppress(ServiceError):
                rebuild.after = await check_index(self._store, name, sample)
            rebuild.status = "completed"
            _log.info("index rebuilt", collection=name, documents=rebuild.done)
        except StaleCollectionId:
            rebuild.error = CollectionNotFound(name)
        except ServiceError as error:
            rebuild.error = error
        except Exception as error:  # noqa: BLE001  # a defect, which must not leave the state at `running`
            rebuild.error = ServiceError("The rebuild failed").because(type(error).__name__)
        finally:
            if rebuild.status == "running":
                rebuild.status = "failed"
        if rebuild.error is not None:
            _log.warning("index not rebuilt", collection=name, problem=rebuild.error.detail, cause=rebuild.error.cause)

    async def _rebuild(self, rebuild: Rebuild, wanted: Collection) -> None:
        self._in_use.add(wanted.id)
        try:
            with self._backend.recorded(wanted.id) as changes:
                await self._replace(rebuild, wanted, changes)
            rebuild.done = rebuild.total
            await self._cache.wait_until_unused(wanted.id)
            await self._remove(replaced_name(wanted.id))
        except (ServiceError, StaleCollectionId):
            await self._remove(copy_name(wanted.id))
            raise
        finally:
            self._in_use.discard(wanted.id)

    async def _replace(self, rebuild: Rebuild, wanted: Collection, changes: Changes) -> None:
        """Copy a collection, and exchange it for the copy."""
        name, lock = wanted.name, self._locks.get(wanted.name)

        def advance(documents: int) -> None:
            rebuild.done = min(rebuild.total, rebuild.done + documents)

        async with lock:
            changes.take()
            ids = (await self._backend.call(GetRecords(wanted.id))).ids
        rebuild.total = len(ids)
        created = await self._backend.call(
            CreateCollection(copy_name(wanted.id), {NAME_KEY: name}, wanted.distance, wanted.hnsw)
        )
        copy = CollectionCopy(self._backend, wanted.id, created.id, await self._max_batch_size(), advance)
        await copy.append(ids)
        del ids
        for _ in range(MAX_ROUNDS):
            if len(changes) <= FEW_CHANGES:
                break
            await copy.apply(changes.take())
        async with lock:
            await copy.apply(changes.take())
            await copy.complete()
            current = await self._backend.call(GetCollection(name))
            if current.id != wanted.id:
                raise StaleCollectionId
            copied = await self._backend.call(GetCollection(created.name))
            if current.dimension is not None and copied.dimension is None:
                await copy.set_dimension(current.dimension)
            await self._exchange(current, created.id)

    async def _exchange(self, old: Collection, copy_id: str) -> None:
        """Exchange the names of a collection and its copy, while no write is in progress.

        Raises:
            ServiceError: the old collection has its name.
        """
        failure: ServiceError | None = None
        with self._cache.held(old.name):
            try:
                await self._backend.call(ExchangeNames(old.id, copy_id, old.name, old.metadata))
            except ServiceError as error:
                failure = error
            current = await self._named(old.name)
            if current.id != copy_id:
                raise failure or ChromaFailed("Chroma did not exchange the collections")
            self._cache.replace(old.id, current)

    async def _named(self, name: str) -> Collection:
        """The collection that has a name after the exchange, however long Chroma is unavailable.

        An exchange that timed out may still be executed, and a write that comes before it would be lost. Chroma's
        process executes calls in their order, so this one comes after the exchange. The lock is held until then.
        """
        while True:
            try:
                await self._backend.call(RestoreNames())
                return await self._backend.call(GetCollection(name))
            except ServiceError:
                await asyncio.sleep(POLL_SECONDS)

    async def _remove_remains(self) -> None:
        """Remove what earlier rebuilds left behind."""
        async with self._removing:
            try:
                listed = await self._backend.call(ListCollections())
            except ServiceError as error:
                _log.warning("remains of rebuilds not removed", problem=error.detail)
                return
            names = [found.name for found in listed if found.name.startswith((COPY_PREFIX, REPLACED_PREFIX))]
            for name in names:
                if name.removeprefix(COPY_PREFIX).removeprefix(REPLACED_PREFIX) not in self._in_use:
                    await self._remove(name)

    async def _remove(self, name: str) -> None:
        """Delete a hidden collection, and first its documents with lists, which Chroma would keep."""
        try:
            collection = await self._backend.call(GetCollection(name))
            if collection.dimension is not None:
                size = min(MAX_PAGE, await self._max_batch_size())
                with suppress(ChromaFailed):
                    await delete_lists_in_steps(self._backend, collection.id, size, ScanProgress())
            await self._backend.call(DeleteCollection(name))
        except CollectionNotFound:
            return
        except (ServiceError, StaleCollectionId) as error:
            _log.warning("remains of a rebuild not removed", collection=name, error=type(error).__name__)
