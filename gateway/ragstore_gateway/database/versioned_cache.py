"""`VersionedCache`: rows that were read from the database, until a table changes whose rows are cached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from ragstore_gateway.database.database import Database

K = TypeVar("K")
V = TypeVar("V")


class VersionedCache(Generic[K, V]):
    """Rows that a query returned, by key. A commit that changes a cached table makes all entries invalid.

    It may be a commit of another process. On PostgreSQL, each commit does. See `change_counter` for the tables; a query
    of other tables must not be cached. A hit is as current as a transaction that begins now: the version is read before
    each use.

    Args:
        max_entries: maximum number of entries. Beyond it, all are dropped.
    """

    def __init__(self, database: Database, max_entries: int) -> None:
        self._database = database
        self._max_entries = max_entries
        self._version: object = None
        self._entries: dict[K, V | None] = {}

    async def get(self, keys: Iterable[K], load: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]) -> dict[K, V]:
        """The values of keys, without keys that have none.

        Args:
            load: reads values from the database; called with the keys that are not cached.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        wanted = list(dict.fromkeys(keys))
        if not wanted:
            return {}
        version = await self._database.cached_version()
        if version != self._version or len(self._entries) > self._max_entries:
            self._version, self._entries = version, {}
        found = {key: self._entries[key] for key in wanted if key in self._entries}
        missing = [key for key in wanted if key not in found]
        if missing:
            loaded = await load(missing)
            own = {key: loaded.get(key) for key in missing}
            found |= own
            # Another call may have found a later version meanwhile.
            if self._version == version:
                self._entries |= own
        return {key: value for key in wanted if (value := found[key]) is not None}
