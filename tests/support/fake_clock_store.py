"""What the tests of planned queries share: a store whose queries have a price."""

from __future__ import annotations

from collections.abc import Sequence

from ragstore.model.queries import Found, Hits, Query
from ragstore.store.protocol import Store
from tests.support.spies import Recording


class Priced(Recording):
    """A recording store whose calls take as long as a test says, by a clock of its own.

    Attributes:
        now: what the clock shows.
        plain: seconds for a query without a filter.
        filtered: seconds for a query with one.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.now = 0.0
        self.plain = 1.0
        self.filtered = 10.0

    async def query(self, name: str, queries: Sequence[Query]) -> Found:
        self.now += sum(self.plain if query.condition.is_none else self.filtered for query in queries)
        return await super().query(name, queries)

    def asks(self) -> list[str]:
        """How Chroma was asked, call by call, since this was last called."""
        calls, self.calls = self.calls, []
        return [" ".join(sorted({_ask(query) for query in call.queries})) for call in calls if call.kind == "query"]


def _ask(query: Query) -> str:
    return str(query.top_k) if query.condition.is_none else "filter"


async def hits_of(store: Store, name: str, query: Query) -> Hits:
    """The answer to one query."""
    (hits,) = (await store.query(name, [query])).hits
    return hits
