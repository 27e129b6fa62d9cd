"""`StoreLayer`: a store that passes every call on, for stores that change some of them.

Every call goes through one place, so that a store that means them all (a budget of time, a limit to what is seen)
misses none, those that come later included.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias, TypeVar

from ragstore.kit.errors import ServiceError
from ragstore.model.collections import Collection, Distance, StoreStatus
from ragstore.model.documents import EVERYTHING, Documents, Selection, Write
from ragstore.model.metadata import CollectionMetadata, Metadata, Scalar
from ragstore.model.queries import Found, Query
from ragstore.store.protocol import Store

T = TypeVar("T")

StoreOperation: TypeAlias = Literal[
    "status",
    "create_collection",
    "get_collection",
    "list_collections",
    "count_collections",
    "update_metadata",
    "delete_collection",
    "write",
    "get",
    "get_ids",
    "get_metadatas",
    "count",
    "delete",
    "query",
]
"""An operation of `Store` that asks Chroma. `add` and `upsert` are writes."""


class StoreLayer:
    """Passes every call on through `_through`; see `Store` for what each method promises.

    Args:
        inner: the store that is wrapped.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    async def _through(self, operation: StoreOperation, name: str | None, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call.

        Args:
            operation: what it does.
            name: the collection's name; None where it is about none.
            call: makes it.

        Returns:
            Its answer.
        """
        return await call()

    async def start(self) -> None:
        """Begin; does not wait for Chroma."""
        await self._inner.start()

    async def close(self) -> None:
        """Let go of Chroma."""
        await self._inner.close()

    async def status(self) -> StoreStatus:
        """Ask Chroma how it is."""
        return await self._through("status", None, self._inner.status)

    async def create_collection(self, name: str, metadata: CollectionMetadata, distance: Distance) -> Collection:
        """Create a collection."""
        return await self._through(
            "create_collection", name, lambda: self._inner.create_collection(name, metadata, distance)
        )

    async def get_collection(self, name: str) -> Collection:
        """Look a collection up."""
        return await self._through("get_collection", name, lambda: self._inner.get_collection(name))

    async def list_collections(self, limit: int | None, offset: int) -> list[Collection]:
        """List collections by name."""
        return await self._through("list_collections", None, lambda: self._inner.list_collections(limit, offset))

    async def count_collections(self) -> int:
        """How many collections there are."""
        return await self._through("count_collections", None, self._inner.count_collections)

    async def update_metadata(self, name: str, metadata: dict[str, Scalar | None], *, merge: bool) -> Collection:
        """Replace a collection's metadata or merge into it."""
        return await self._through(
            "update_metadata", name, lambda: self._inner.update_metadata(name, metadata, merge=merge)
        )

    async def delete_collection(self, name: str) -> None:
        """Delete a collection and its documents."""
        await self._through("delete_collection", name, lambda: self._inner.delete_collection(name))

    async def write(self, name: str, writes: Sequence[Write]) -> list[ServiceError | None]:
        """Write several batches, each with an outcome of its own."""
        return await self._through("write", name, lambda: self._inner.write(name, writes))

    async def get(
        self,
        name: str,
        selection: Selection,
        *,
        limit: int | None = None,
        offset: int = 0,
        with_embeddings: bool = False,
    ) -> Documents:
        """Read documents in insertion order."""
        return await self._through(
            "get",
            name,
            lambda: self._inner.get(name, selection, limit=limit, offset=offset, with_embeddings=with_embeddings),
        )

    async def get_ids(self, name: str, selection: Selection) -> list[str]:
        """Read the ids of all documents that are meant, in insertion order."""
        return await self._through("get_ids", name, lambda: self._inner.get_ids(name, selection))

    async def get_metadatas(self, name: str, selection: Selection, *, limit: int, offset: int) -> list[Metadata]:
        """Read documents' metadata alone, in insertion order."""
        return await self._through(
            "get_metadatas", name, lambda: self._inner.get_metadatas(name, selection, limit=limit, offset=offset)
        )

    async def count(self, name: str, selection: Selection = EVERYTHING) -> int:
        """How many documents are meant, exactly."""
        return await self._through("count", name, lambda: self._inner.count(name, selection))

    async def delete(self, name: str, selection: Selection) -> int:
        """Delete documents."""
        return await self._through("delete", name, lambda: self._inner.delete(name, selection))

    async def query(self, name: str, queries: Sequence[Query]) -> Found:
        """Find the nearest documents."""
        return await self._through("query", name, lambda: self._inner.query(name, queries))
