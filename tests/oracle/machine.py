"""A state machine that runs each operation on a store and on numpy arrays, and compares the results.

Each example has a new collection of one distance. Embeddings vary in length and are often equal, which Chroma's index
handles badly. Ids, texts, metadata, totals, pages, distances, scores and the order up to ties are compared. A query
returns the number of documents that match, up to `top_k`, each at the distance that numpy computes. Exact queries find
the nearest. Reads of one step are independent of each other and run concurrently; writes and deletions run alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, TypeVar
from uuid import uuid4

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from ragstore.errors import DocumentsExist
from ragstore.model.collections import Distance
from ragstore.model.documents import Batch, Selection, Write
from ragstore.model.filters.condition import Condition
from ragstore.model.metadata import Metadata
from ragstore.model.queries import Query
from ragstore.model.vectors import Matrix, Vector
from ragstore.operations.list_documents import Cursor, Page, list_page
from ragstore.operations.search import search
from ragstore.store.filter_planning import MAX_SMALL_COLLECTION
from ragstore.store.protocol import Store
from tests.support.filter_oracle import Json, Value, selects
from tests.support.filter_strategies import filters, metadatas

T = TypeVar("T")

DIMENSION: Final = 8
TOLERANCE: Final = 1e-4
IDS: Final = tuple(f"d{number}" for number in range(120))

CONCURRENCY: Final = 16
"""Maximum number of reads in flight."""

REACHED: Final = "reached"
"""The kind of queries that look for a stored document by its own embedding."""

seeds: Final = st.integers(0, 2**16)
sizes: Final = st.sampled_from((1, 2, 5, 40))


def embeddings_of(seed: int, count: int) -> Matrix:
    """Embeddings of varying lengths, a third of them equal."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(count, DIMENSION)) * generator.lognormal(0, 0.5, (count, 1))
    rows[generator.random(count) < 1 / 3] = np.arange(1, DIMENSION + 1)
    return rows.astype(np.float32)


def distances_of(rows: Matrix, query: Vector, distance: Distance) -> list[float]:
    """The distances of embeddings from a query, by numpy in float64."""
    stored, other = rows.astype(np.float64), query.astype(np.float64)
    if distance == "l2":
        return [float(value) for value in ((stored - other) ** 2).sum(axis=1)]
    products = stored @ other
    if distance == "cosine":
        products /= np.linalg.norm(stored, axis=1) * np.linalg.norm(other)
    return [float(value) for value in 1 - products]


class Look(NamedTuple):
    """Reads of the documents that one filter selects.

    Attributes:
        where: the filter.
        limit: limit of the pages.
        offset: offset of the first page.
        seed: seed of the query's embedding.
        top_k: maximum number of results of the query.
    """

    where: Json | None
    limit: int
    offset: int
    seed: int
    top_k: int


looks: Final = st.builds(
    Look,
    where=st.none() | filters,
    limit=st.sampled_from((1, 7, 50)),
    offset=st.sampled_from((0, 1, 10)),
    seed=seeds,
    top_k=st.sampled_from((1, 3, 10, 200)),
)


class StoreMachine(RuleBasedStateMachine):
    """Documents in a collection of a store, and in a dictionary.

    Attributes:
        loop: the event loop that it runs in.
        done: number of operations by kind, of all examples.
    """

    store: ClassVar[Store]
    loop: ClassVar[asyncio.AbstractEventLoop]
    done: ClassVar[Counter[str]] = Counter()

    def run(self, kind: str, call: Coroutine[Any, Any, T]) -> T:
        """Run an operation to its end."""
        return self.loop.run_until_complete(self.counted(kind, call))

    def run_all(self, calls: Sequence[Coroutine[Any, Any, object]]) -> None:
        """Run operations concurrently, all to their end."""
        semaphore = asyncio.Semaphore(CONCURRENCY)

        async def limited(call: Coroutine[Any, Any, object]) -> object:
            async with semaphore:
                return await call

        async def together() -> list[object]:
            return await asyncio.gather(*map(limited, calls), return_exceptions=True)

        for outcome in self.loop.run_until_complete(together()):
            if isinstance(outcome, BaseException):
                raise outcome

    async def counted(self, kind: str, call: Coroutine[Any, Any, T]) -> T:
        """The result of an operation, which is counted."""
        type(self).done[kind] += 1
        return await call

    @initialize(distance=st.sampled_from(("cosine", "l2", "ip")))
    def create(self, distance: Distance) -> None:
        self.name = f"oracle-{uuid4().hex}"
        self.distance: Distance = distance
        self.documents: dict[str, tuple[str, dict[str, Value], Vector]] = {}
        self.run("creations", self.store.create_collection(self.name, {}, distance))

    def teardown(self) -> None:
        if hasattr(self, "name"):
            self.run("deletions", self.store.delete_collection(self.name))

    # -- writes -------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(("add", "upsert", "upsert")), seed=seeds, count=sizes, metadata=metadatas)
    def write(self, kind: Any, seed: int, count: int, metadata: dict[str, Value]) -> None:
        generator = np.random.default_rng(seed)
        ids = [IDS[index] for index in generator.permutation(len(IDS))[:count]]
        texts = [f"text {seed} of {key}" for key in ids]
        own: list[Metadata] = [{**metadata, "one": key, "n": index % 7} for index, key in enumerate(ids)]
        rows = embeddings_of(seed, count)
        (outcome,) = self.run("writes", self.store.write(self.name, [Write(kind, Batch(ids, texts, own, rows))]))
        taken = [key for key in ids if key in self.documents]
        if kind == "add" and taken:
            assert isinstance(outcome, DocumentsExist)
            assert set(outcome.ids) == set(taken)
            return
        assert outcome is None
        for index, key in enumerate(ids):
            # A replaced document keeps its position.
            self.documents[key] = (texts[index], dict(own[index]), rows[index])

    @rule(where_given=filters)
    def delete_matching(self, where_given: Json) -> None:
        matching = self.matching(where_given)
        selection = Selection(condition=Condition.parse(where_given))
        if selection.is_everything:
            return
        assert self.run("deletions", self.store.delete(self.name, selection)) == len(matching)
        for key in matching:
            del self.documents[key]

    @rule(seed=seeds, count=st.sampled_from((1, 3, 20)))
    def delete_ids(self, seed: int, count: int) -> None:
        ids = [IDS[index] for index in np.random.default_rng(seed).permutation(len(IDS))[:count]]
        present = [key for key in ids if key in self.documents]
        assert self.run("deletions", self.store.delete(self.name, Selection(ids=tuple(ids)))) == len(present)
        for key in present:
            del self.documents[key]

    # -- reads --------------------------------------------------------------------------------

    def matching(self, where_given: Mapping[str, object] | None) -> list[str]:
        """Ids of the documents that a filter selects, in insertion order."""
        return [key for key, (_, metadata, _) in self.documents.items() if selects(where_given or {}, metadata)]

    @rule(given=st.lists(looks, min_size=4, max_size=6), seed=seeds)
    def read_much(self, given: list[Look], seed: int) -> None:
        self.read(given, seed)

    @rule(given=st.lists(looks, min_size=1, max_size=2), seed=seeds)
    def read_little(self, given: list[Look], seed: int) -> None:
        self.read(given, seed)

    def read(self, given: list[Look], seed: int) -> None:
        keys = [IDS[index] for index in np.random.default_rng(seed).permutation(len(IDS))[:2]]
        self.run_all(
            [
                *(check(look) for look in given for check in (self.count, self.list_pages, self.query)),
                *(self.read_one(key) for key in keys),
            ]
        )

    async def count(self, look: Look) -> None:
        selection = Selection(condition=Condition.parse(look.where))
        count = await self.counted("counts", self.store.count(self.name, selection))
        assert count == len(self.matching(look.where))

    async def list_pages(self, look: Look) -> None:
        expected = self.matching(look.where)
        selection = Selection(condition=Condition.parse(look.where))
        seen: list[str] = []
        page = Page(look.limit, look.offset, False, True)
        for _ in range(4):
            listed = await self.counted("pages", list_page(self.store, self.name, selection, page))
            assert listed.total == len(expected)
            for document in listed.documents:
                assert (document.text, document.metadata) == self.documents[document.id][:2]
            seen += [document.id for document in listed.documents]
            if not isinstance(listed.next, str):
                break
            page = Page(look.limit, 0, False, True, after=Cursor.decode(listed.next))
        assert seen == expected[look.offset : look.offset + len(seen)]
        assert len(seen) >= min(look.limit, max(0, len(expected) - look.offset))

    async def read_one(self, key: str) -> None:
        selection = Selection(ids=(key,))
        found = await self.counted("gets", self.store.get(self.name, selection, with_embeddings=True))
        assert found.ids == ([key] if key in self.documents else [])
        if found.ids:
            text, metadata, embedding = self.documents[key]
            assert (found.texts[0], found.metadatas[0]) == (text, metadata)
            assert found.embeddings is not None
            read = found.embeddings[0]
            if self.distance == "cosine":  # Chroma returns them as they were sent, or normalised
                read, embedding = read / np.linalg.norm(read), embedding / np.linalg.norm(embedding)
            np.testing.assert_allclose(read, embedding, rtol=1e-5, atol=1e-6)

    async def query(self, look: Look) -> None:
        if not self.documents:
            return
        condition = Condition.parse(look.where)
        embedding = embeddings_of(look.seed, 1)[0]
        query = Query(embedding, look.top_k, condition)
        _, hits = await self.counted("queries", search(self.store, self.name, query))
        ids, found = [hit.id for hit in hits], [hit.distance for hit in hits]
        matching = self.matching(look.where)
        assert len(ids) == len(set(ids)) == min(look.top_k, len(matching))
        if not matching:
            return
        rows = np.stack([self.documents[key][2] for key in matching])
        distances = dict(zip(matching, distances_of(rows, embedding, self.distance), strict=True))
        np.testing.assert_allclose(found, [distances[key] for key in ids], TOLERANCE, TOLERANCE)
        assert found == sorted(found)
        for hit in hits:
            assert (hit.text, hit.metadata) == self.documents[hit.id][:2]
            expected = 1 / (1 + hit.distance) if self.distance == "l2" else 1 - hit.distance
            assert hit.score == expected
        if not condition.is_none or len(matching) <= MAX_SMALL_COLLECTION or look.top_k >= len(matching):
            np.testing.assert_allclose(found, sorted(distances.values())[: look.top_k], TOLERANCE, TOLERANCE)

    @rule()
    def reach(self) -> None:
        """Every document is found by its own embedding, with a filter that selects only it."""
        self.run_all([self.reach_one(key) for key in self.documents])

    async def reach_one(self, key: str) -> None:
        query = Query(self.documents[key][2], 1, Condition.parse({"one": key}))
        found = await self.counted(REACHED, self.store.query(self.name, [query]))
        assert found.matches[0].ids == [key]
