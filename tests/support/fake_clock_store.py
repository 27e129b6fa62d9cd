"""`FakeClockStore`: a store whose queries take a set time, by a fake clock."""

from __future__ import annotations

from collections.abc import Sequence

from ragstore.model.queries import CollectionMatches, Matches, Query
from ragstore.store.protocol import Store
from tests.support.spies import SpyStore


class FakeClockStore(SpyStore):
    """A spy whose queries advance a fake clock.

    Attributes:
        now: time of the fake clock, in seconds.
        plain_seconds: seconds that a query without a filter takes.
        filtered_seconds: seconds that a query with a filter takes.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.now = 0.0
        self.plain_seconds = 1.0
        self.filtered_seconds = 10.0

    async def query(self, name: str, queries: Sequence[Query]) -> CollectionMatches:
        self.now += sum(self.plain_seconds if query.condition.is_none else self.filtered_seconds for query in queries)
        return await super().query(name, queries)

    def new_calls(self) -> list[str]:
        """The queries since the last call of this method: their number of neighbours, or `pre_filter`."""
        calls, self.calls = self.calls, []
        return [
            " ".join(sorted({_describe(query) for query in call.queries})) for call in calls if call.kind == "query"
        ]


def _describe(query: Query) -> str:
    return str(query.top_k) if query.condition.is_none else "pre_filter"


async def hits_of(store: Store, name: str, query: Query) -> Matches:
    """The hits of one query."""
    (hits,) = (await store.query(name, [query])).matches
    return hits
