"""A state machine that runs each operation on a store and on numpy arrays, and compares the results.

Each example has a new collection of one distance. Embeddings vary in length and are often equal, which Chroma's index
handles badly. Ids, texts, metadata, totals, pages, distances and the order up to ties are compared. A query returns the
number of documents that match, up to `top_k`, each at the distance that numpy computes. Exact queries find the nearest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, ClassVar, Final, TypeVar
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
from ragstore.store.filter_planning import MAX_SMALL_COLLECTION
from ragstore.store.protocol import Store
from tests.support.filter_oracle import Json, Value, selects
from tests.support.filter_strategies import filters, metadatas

T = TypeVar("T")

DIMENSION: Final = 8
TOLERANCE: Final = 1e-4
IDS: Final = tuple(f"d{number}" for number in range(120))

seeds: Final = st.integers(0, 2**16)
where: Final = st.none() | filters
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


class StoreMachine(RuleBasedStateMachine):
    """Documents in a collection of a store, and in a dictionary.

    Attributes:
        store: the store.
        loop: the event loop that it runs in.
        operations: number of operations so far, of all examples.
    """

    store: ClassVar[Store]
    loop: ClassVar[asyncio.AbstractEventLoop]
    operations: ClassVar[int] = 0

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run an operation to its end."""
        type(self).operations += 1
        return self.loop.run_until_complete(call)

    @initialize(distance=st.sampled_from(("cosine", "l2", "ip")))
    def create(self, distance: Distance) -> None:
        self.name = f"oracle-{uuid4().hex}"
        self.distance: Distance = distance
        self.documents: dict[str, tuple[str, dict[str, Value], Vector]] = {}
        self.run(self.store.create_collection(self.name, {}, distance))

    def teardown(self) -> None:
        if hasattr(self, "name"):
            self.run(self.store.delete_collection(self.name))

    # -- writes -------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(("add", "upsert", "upsert")), seed=seeds, count=sizes, metadata=metadatas)
    def write(self, kind: Any, seed: int, count: int, metadata: dict[str, Value]) -> None:
        generator = np.random.default_rng(seed)
        ids = [IDS[index] for index in generator.permutation(len(IDS))[:count]]
        texts = [f"text {seed} of {key}" for key in ids]
        own: list[Metadata] = [{**metadata, "one": key, "n": index % 7} for index, key in enumerate(ids)]
        rows = embeddings_of(seed, count)
        (outcome,) = self.run(self.store.write(self.name, [Write(kind, Batch(ids, texts, own, rows))]))
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
        assert self.run(self.store.delete(self.name, selection)) == len(matching)
        for key in matching:
            del self.documents[key]

    @rule(seed=seeds, count=st.sampled_from((1, 3, 20)))
    def delete_ids(self, seed: int, count: int) -> None:
        ids = [IDS[index] for index in np.random.default_rng(seed).permutation(len(IDS))[:count]]
        present = [key for key in ids if key in self.documents]
        assert self.run(self.store.delete(self.name, Selection(ids=tuple(ids)))) == len(present)
        for key in present:
            del self.documents[key]

    # -- reads --------------------------------------------------------------------------------

    def matching(self, where_given: Mapping[str, object] | None) -> list[str]:
        """Ids of the documents that a filter selects, in insertion order."""
        return [key for key, (_, metadata, _) in self.documents.items() if selects(where_given or {}, metadata)]

    @rule(where_given=where)
    def count(self, where_given: Json | None) -> None:
        selection = Selection(condition=Condition.parse(where_given))
        assert self.run(self.store.count(self.name, selection)) == len(self.matching(where_given))

    @rule(where_given=where, limit=st.sampled_from((1, 7, 50)), offset=st.sampled_from((0, 1, 10)))
    def list_pages(self, where_given: Json | None, limit: int, offset: int) -> None:
        expected = self.matching(where_given)
        selection = Selection(condition=Condition.parse(where_given))
        page = self.run(list_page(self.store, self.name, selection, Page(limit, offset, False, True)))
        seen = [document.id for document in page.documents]
        for _ in range(3):
            assert page.total == len(expected)
            if not isinstance(page.next, str):
                break
            after = Cursor.decode(page.next)
            page = self.run(list_page(self.store, self.name, selection, Page(limit, 0, False, True, after=after)))
            seen += [document.id for document in page.documents]
        assert seen == expected[offset : offset + len(seen)]
        assert len(seen) >= min(limit, max(0, len(expected) - offset))

    @rule(seed=seeds)
    def read_one(self, seed: int) -> None:
        key = IDS[seed % len(IDS)]
        found = self.run(self.store.get(self.name, Selection(ids=(key,)), with_embeddings=True))
        assert found.ids == ([key] if key in self.documents else [])
        if found.ids:
            text, metadata, embedding = self.documents[key]
            assert (found.texts[0], found.metadatas[0]) == (text, metadata)
            assert found.embeddings is not None
            read = found.embeddings[0]
            if self.distance == "cosine":  # Chroma returns them as they were sent, or normalised
                read, embedding = read / np.linalg.norm(read), embedding / np.linalg.norm(embedding)
            np.testing.assert_allclose(read, embedding, rtol=1e-5, atol=1e-6)

    @rule(where_given=where, seed=seeds, top_k=st.sampled_from((1, 3, 10, 200)))
    def query(self, where_given: Json | None, seed: int, top_k: int) -> None:
        if not self.documents:
            return
        condition = Condition.parse(where_given)
        embedding = embeddings_of(seed, 1)[0]
        hits = self.run(self.store.query(self.name, [Query(embedding, top_k, condition)])).matches[0]
        matching = self.matching(where_given)
        assert len(hits.ids) == len(set(hits.ids)) == min(top_k, len(matching))
        if not matching:
            return
        rows = np.stack([self.documents[key][2] for key in matching])
        distances = dict(zip(matching, distances_of(rows, embedding, self.distance), strict=True))
        np.testing.assert_allclose(hits.distances, [distances[key] for key in hits.ids], TOLERANCE, TOLERANCE)
        assert hits.distances == sorted(hits.distances)
        for key, text, metadata in zip(hits.ids, hits.texts, hits.metadatas, strict=True):
            assert (text, metadata) == self.documents[key][:2]
        if not condition.is_none or len(matching) <= MAX_SMALL_COLLECTION or top_k >= len(matching):
            np.testing.assert_allclose(hits.distances, sorted(distances.values())[:top_k], TOLERANCE, TOLERANCE)

    @rule(seed=seeds)
    def reach(self, seed: int) -> None:
        for key in list(self.documents)[seed % 5 :: 5]:
            query = Query(self.documents[key][2], 1, Condition.parse({"one": key}))
            assert self.run(self.store.query(self.name, [query])).matches[0].ids == [key]
