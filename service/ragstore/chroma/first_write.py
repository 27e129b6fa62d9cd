"""The first write to a collection, which sets its dimension: one at a time, across replicas.

Chroma 1.5.9 sets the dimension of a collection without a condition. If two replicas send the first documents, of two
dimensions, both succeed: the embeddings of one are cut or padded, and the dimension that Chroma reports may differ from
its index's dimension from then on. The only conditional writes of Chroma are the creation of a collection, by its name,
and the add of a record, by its id. So the first write holds a lock: an empty collection whose name contains the id of
the collection that is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final
from uuid import uuid4

from ragstore.chroma.backend import Backend
from ragstore.chroma.errors import ConnectionLost, StaleCollectionId
from ragstore.chroma.operations import CreateCollection, DeleteCollection, GetCollection
from ragstore.errors import ChromaTimeout, ChromaUnavailable, CollectionExists, CollectionNotFound
from ragstore.kit.errors import ServiceError
from ragstore.model.collections import Collection
from ragstore.model.metadata import CollectionMetadata

LOCK_PREFIX: Final = "ragstore-first-write-"
"""Begins the names of locks. No other collection may have such a name; lists leave them out."""

LEASE_SECONDS: Final = 10.0
"""Time after which a lock is removed: its holder ended, or does not know whether its write was applied."""

POLL_SECONDS: Final = 0.05

MAX_LOST: Final = 3
"""Maximum number of lost connections while a lock is acquired."""

LookUp = Callable[[str], Awaitable[Collection]]


@asynccontextmanager
async def first_write(backend: Backend, collection: Collection, look_up: LookUp) -> AsyncIterator[Collection]:
    """Write to a collection; alone if it has no dimension yet.

    Args:
        backend: Chroma.
        collection: the collection, as it was looked up.
        look_up: looks a collection up again.

    Yields:
        The collection to write to, whose dimension is known unless this is the first write.

    Raises:
        StaleCollectionId: the collection was deleted and created again.
    """
    # A backend whose adds are not conditional has its data for itself.
    if collection.dimension is not None or not backend.has_conditional_add:
        yield collection
        return
    lock = LOCK_PREFIX + collection.id
    is_first = await _acquire(backend, lock, collection, look_up)
    try:
        current = await look_up(collection.name)
        if current.id != collection.id:
            raise StaleCollectionId
        yield current
    except (ChromaTimeout, ChromaUnavailable, asyncio.CancelledError):
        # The write may still be applied, so the next one waits until the lease is over.
        raise
    except BaseException:
        await _release(backend, lock, is_first)
        raise
    else:
        await _release(backend, lock, is_first)


async def _acquire(backend: Backend, lock: str, collection: Collection, look_up: LookUp) -> bool:
    """Acquire the lock, or wait until the collection has a dimension.

    Returns:
        Whether the lock was acquired.
    """
    loop = asyncio.get_running_loop()
    owner: CollectionMetadata = {"owner": uuid4().hex}
    holder, since, lost = "", 0.0, 0
    while True:
        if lost:
            await asyncio.sleep(POLL_SECONDS)
        try:
            await backend.call(CreateCollection(lock, owner, "l2"))
            return True
        except CollectionExists:
            pass
        except ConnectionLost:
            # It may have been created; the owner shows whether it was.
            lost += 1
            if lost > MAX_LOST:
                raise
        current = await look_up(collection.name)
        if current.dimension is not None or current.id != collection.id:
            return False
        with suppress(CollectionNotFound):
            found = await backend.call(GetCollection(lock))
            if found.metadata == owner:
                return True
            if found.id != holder:
                holder, since = found.id, loop.time()
            elif loop.time() - since > LEASE_SECONDS:
                await backend.call(DeleteCollection(lock))
            else:
                await asyncio.sleep(POLL_SECONDS)


async def _release(backend: Backend, lock: str, is_held: bool) -> None:
    """Release the lock. One that cannot be released is removed when its lease is over."""
    if is_held:
        with suppress(ServiceError):
            await backend.call(DeleteCollection(lock))
