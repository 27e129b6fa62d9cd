"""Counts the changes of collections through a store, so that what was read of a collection can be kept until a change.

Another client of a Chroma server changes a collection without a new generation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from ragstore.store.layer import StoreOperation

T = TypeVar("T")

UNCERTAIN_SECONDS: Final = 300.0
"""How long nothing is to be kept of a collection after a change that failed: it may still be applied."""

MAX_COLLECTIONS: Final = 10_000
"""Maximum number of collections whose generation is kept. Beyond it, all collections begin a new one."""

READS: Final[frozenset[StoreOperation]] = frozenset(
    {
        "status",
        "get_collection",
        "list_collections",
        "count_collections",
        "count_each",
        "max_batch_size",
        "start_rebuild",
        "get_rebuild",
        "get",
        "get_ids",
        "get_embeddings",
        "get_metadata_values",
        "count",
        "query",
        "query_exact",
        "map_collection",
    }
)
"""Operations that change no document; a rebuild leaves the documents and their order as they are. All others begin a
new generation."""

WRITES: Final[frozenset[StoreOperation]] = frozenset({"write", "update_documents"})
"""Changes after which all documents are listed in the same order as before, and new ones after them."""


class Generation(NamedTuple):
    """The state of a collection. If it is equal at two times, nothing was changed in between.

    Attributes:
        change: number of the latest change.
        removal: number of the latest change that was no write.
    """

    change: int
    removal: int


def is_change(operation: StoreOperation) -> bool:
    """Whether an operation may change documents."""
    return operation not in READS


class Generations:
    """The generations of collections.

    Args:
        clock: returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._latest = 0
        self._oldest = Generation(0, 0)
        self._generations: dict[str, Generation] = {}
        self._uncertain: dict[str, float] = {}

    def of(self, name: str) -> Generation:
        """The generation of a collection."""
        return self._generations.get(name, self._oldest)

    def is_certain(self, name: str) -> bool:
        """Whether no change of a collection that failed may still be applied."""
        return self._uncertain.get(name, 0.0) <= self._clock()

    async def follow(self, operation: StoreOperation, name: str, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call that changes a collection. A generation begins before and after it.

        Reads beside the call may see either state.
        """
        is_write = operation in WRITES
        self._begin(name, is_write=is_write)
        try:
            return await call()
        except BaseException:
            self._uncertain[name] = self._clock() + UNCERTAIN_SECONDS
            raise
        finally:
            self._begin(name, is_write=is_write)

    def _begin(self, name: str, *, is_write: bool) -> None:
        self._latest += 1
        if len(self._generations) >= MAX_COLLECTIONS:
            self._generations.clear()
            self._oldest = Generation(self._latest, self._latest)
        removal = self.of(name).removal if is_write else self._latest
        self._generations[name] = Generation(self._latest, removal)
        now = self._clock()
        self._uncertain = {other: until for other, until in self._uncertain.items() if until > now}
