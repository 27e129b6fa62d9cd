"""A search of a knowledge base finds by vectors, by keywords, or by both."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
import sqlalchemy as sa

from ragstore_client import Where
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.embeddings.embedder import Kind, Vectors
from ragstore_gateway.engines.engine_collection import Passage, Vector
from ragstore_gateway.ingestion.tables import DocumentRow
from ragstore_gateway.keywords.word_table import Ranked
from ragstore_gateway.retrieval import hybrid_search
from ragstore_gateway.retrieval.calibration import MIN_SAMPLE
from ragstore_gateway.retrieval.question import Question
from ragstore_gateway.retrieval.retriever import BaseQuery, BaseResult
from ragstore_gateway.retrieval.visible_search import Fetch, FoundChunks, VisibleSearch
from tests.support.knowledge import Knowledge, knowledge_of

FACTS: Final = [
    "The warranty of the kettle lasts three years.",
    "Trains leave the station at noon on weekdays.",
    "Bread is baked with flour, water and salt.",
    "The museum of modern art is closed on Mondays.",
    "A cat sleeps for fourteen hours a day.",
    "The price of the ticket includes breakfast.",
    "Rain is expected in the north tomorrow.",
    "The committee met to discuss the budget.",
    "Our office moved to the third floor.",
    "Guitars need new strings every few months.",
]
PART: Final = "Spare part QX-7719: order it from the supplier."


@pytest.fixture
async def knowledge(tmp_path: Path) -> AsyncIterator[Knowledge]:
    """An empty database. The vectors are in the memory of the test."""
    async with knowledge_of(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}", "http://127.0.0.1:1") as state:
        yield state


async def base_of(knowledge: Knowledge, name: str, texts: Sequence[str], **fields: Any) -> Configuration[KnowledgeBase]:
    """A base whose vectors are in memory."""
    return await knowledge.base(name, texts, storeType="in-memory", **fields)


async def found(
    knowledge: Knowledge,
    question: str,
    *bases: Configuration[KnowledgeBase],
    max_results: int = 3,
    min_score: float = 0.0,
    where: Where | None = None,
) -> list[BaseResult]:
    """The results of a search."""
    queries = [BaseQuery(base, max_results, min_score, where) for base in bases]
    results = await knowledge.retriever.search(Question(question), queries, asyncio.get_running_loop().time() + 10)
    assert not any(result.error for result in results)
    return results


def texts(result: BaseResult) -> list[str]:
    """The texts of the passages."""
    return [passage.text for passage in result.passages]


QUESTION: Final = "Trains at noon, art on Mondays, a cat, a budget, rain tomorrow: 7719?"
"""A question whose vector is far from the part. Only the part has its rarest word."""


async def test_a_word_that_one_chunk_has_is_found_by_keywords_before_it_is_by_vectors(knowledge: Knowledge) -> None:
    places = {}
    for retrieval in ("vector", "hybrid", "keyword"):
        base = await base_of(knowledge, retrieval, [*FACTS, PART], retrieval=retrieval)
        places[retrieval] = texts((await found(knowledge, QUESTION, base, max_results=20))[0]).index(PART)
    assert places["keyword"] <= places["hybrid"] < places["vector"]


async def test_a_weight_of_zero_is_a_search_by_vectors(knowledge: Knowledge) -> None:
    vector = await base_of(knowledge, "vector", [*FACTS, PART], retrieval="vector")
    weighed = await base_of(knowledge, "weighed", [*FACTS, PART], keywordWeight=0)
    results = await found(knowledge, QUESTION, vector, weighed, max_results=5)
    assert texts(results[0]) == texts(results[1])


async def test_keywords_alone_find_no_chunk_without_a_word_of_the_question(knowledge: Knowledge) -> None:
    base = await base_of(knowledge, "docs", FACTS, retrieval="keyword")
    assert texts((await found(knowledge, "kettle zebra", base, max_results=10))[0]) == [FACTS[0]]
    assert texts((await found(knowledge, "zebra", base))[0]) == []


async def test_the_relevance_of_a_chunk_that_keywords_found_is_that_of_its_vector(knowledge: Knowledge) -> None:
    words = await base_of(knowledge, "words", [*FACTS, PART], retrieval="keyword")
    vectors = await base_of(knowledge, "vectors", [*FACTS, PART], retrieval="vector")
    by_words, by_vectors = await found(knowledge, QUESTION, words, vectors, max_results=100)
    expected = {passage.text: passage.relevance for passage in by_vectors.passages}
    assert len(by_words.passages) > 3
    for passage in by_words.passages:
        assert passage.relevance == pytest.approx(expected[passage.text], abs=1e-6)


async def test_a_minimum_relevance_and_a_filter_hold_for_what_keywords_find(knowledge: Knowledge) -> None:
    base = await base_of(knowledge, "docs", [*FACTS, PART])
    [everything] = await found(knowledge, QUESTION, base, max_results=20)
    [part] = [passage for passage in everything.passages if passage.text == PART]
    own: Where = {"document_id": part.metadata["document_id"]}
    assert texts((await found(knowledge, QUESTION, base, where=own))[0]) == [PART]
    others: Where = {"document_id": {"$ne": part.metadata["document_id"]}}
    assert PART not in texts((await found(knowledge, QUESTION, base, max_results=20, where=others))[0])
    [limited] = await found(knowledge, QUESTION, base, max_results=20, min_score=part.relevance + 0.001)
    assert FACTS[3] in texts(limited)
    assert PART not in texts(limited)


async def test_a_filter_is_applied_to_more_candidates_than_are_ranked(knowledge: Knowledge) -> None:
    rare = "The last of the kettles has a lid, a handle, a cord, a switch, a lamp and a filter that is washed monthly."
    base = await base_of(knowledge, "docs", ["kettles kettles"] * 100 + [rare], retrieval="keyword")
    [everything] = await found(knowledge, "kettles", base, max_results=200)
    assert texts(everything).index(rare) > hybrid_search.POOL
    own: Where = {"document_id": everything.passages[-1].metadata["document_id"]}
    assert texts((await found(knowledge, "kettles", base, where=own))[0]) == [rare]


async def test_a_chunk_that_its_index_has_lost_is_found_by_its_words(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = await base_of(knowledge, "docs", [*FACTS, PART])
    collection = await knowledge.collections.active(base.id)
    assert collection is not None
    store = knowledge.collections.open(collection)

    async def search(
        vector: Vector, limit: int, *, min_relevance: float = 0.0, where: Where | None = None
    ) -> list[Passage]:
        passages = await type(store).search(store, vector, limit + 1, min_relevance=min_relevance, where=where)
        return [passage for passage in passages if passage.text != PART][:limit]

    monkeypatch.setattr(store, "search", search)
    monkeypatch.setattr(knowledge.collections, "open", lambda _: store)
    assert texts((await found(knowledge, PART, base))[0])[0] == PART


async def test_words_are_searched_for_and_read_while_the_question_is_embedded_and_its_vector_searched_for(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [*FACTS[:3], PART]
    assert len(few) < MIN_SAMPLE  # so that only chunks that have the words are compared
    base = await base_of(knowledge, "docs", few)
    collection = await knowledge.collections.active(base.id)
    assert collection is not None
    store, embedder, keywords = (
        knowledge.collections.open(collection),
        knowledge.collections.embedder(collection),
        knowledge.keywords,
    )
    by_words, compared = asyncio.Event(), asyncio.Event()

    async def keyword_search(collection_id: str, question: str, limit: int) -> Ranked:
        ranked = await type(keywords).search(keywords, collection_id, question, limit)
        by_words.set()
        return ranked

    async def embed(texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        await by_words.wait()
        return await type(embedder).embed(embedder, texts, kind, normalize=normalize)

    async def compare(vector: Vector, ids: Sequence[str]) -> list[Passage]:
        passages = await type(store).compare(store, vector, ids)
        compared.set()
        return passages

    async def search(
        vector: Vector, limit: int, *, min_relevance: float = 0.0, where: Where | None = None
    ) -> list[Passage]:
        await compared.wait()
        return await type(store).search(store, vector, limit, min_relevance=min_relevance, where=where)

    monkeypatch.setattr(knowledge.collections, "open", lambda _: store)
    monkeypatch.setattr(knowledge.collections, "embedder", lambda _: embedder)
    monkeypatch.setattr(keywords, "search", keyword_search)
    monkeypatch.setattr(embedder, "embed", embed)
    monkeypatch.setattr(store, "compare", compare)
    monkeypatch.setattr(store, "search", search)
    assert texts((await found(knowledge, PART, base))[0])[0] == PART


async def test_a_document_that_is_hidden_after_the_keyword_search_is_not_returned(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = await base_of(knowledge, "docs", [*FACTS, PART], retrieval="keyword")
    keywords = knowledge.keywords
    searches = 0

    async def search(collection_id: str, question: str, limit: int) -> Ranked:
        nonlocal searches
        searches += 1
        passages = await type(keywords).search(keywords, collection_id, question, limit)
        async with knowledge.database.session() as session:
            await session.execute(sa.update(DocumentRow).values(current_revision=None))
        return passages

    monkeypatch.setattr(keywords, "search", search)
    assert texts((await found(knowledge, PART, base))[0]) == []
    assert searches == hybrid_search.MAX_ROUNDS


async def test_a_document_that_is_replaced_after_each_search_by_vectors_is_found(
    knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = await base_of(knowledge, "docs", FACTS)
    search = VisibleSearch.search

    async def replacing(self: VisibleSearch, base_id: str, fetch: Fetch, limit: int, owner: str = "") -> FoundChunks:
        found = await search(self, base_id, fetch, limit, owner)
        async with knowledge.database.session() as session:
            await session.execute(sa.update(DocumentRow).values(current_revision=str(uuid4())))
        return found

    monkeypatch.setattr(VisibleSearch, "search", replacing)
    assert FACTS[0] in texts((await found(knowledge, FACTS[0], base))[0])


async def test_the_ranks_of_bases_with_different_models_compare(knowledge: Knowledge) -> None:
    small = {"embeddingParameters": {"model": "builtin/wordllama"}}
    large = {"embeddingParameters": {"model": "builtin/minilm"}}
    facts = await base_of(knowledge, "facts", FACTS, **small)
    parts = await base_of(knowledge, "parts", [f"The {part} is broken." for part in "abcdefghij"] + [PART], **large)
    for question, best in ((PART, PART), (FACTS[0], FACTS[0])):
        results = await found(knowledge, question, facts, parts)
        passages = sorted(
            (passage for result in results for passage in result.passages), key=lambda passage: passage.place
        )
        assert passages[0].text == best


async def test_a_collection_is_calibrated_by_its_first_questions(knowledge: Knowledge) -> None:
    base = await base_of(knowledge, "docs", FACTS)
    collection = await knowledge.collections.active(base.id)
    assert collection is not None
    store = knowledge.collections.open(collection)
    vector = (await knowledge.collections.embedder(collection).embed(["kettle"], "query"))[0]
    cosines = [2 * passage.relevance - 1 for passage in await store.search(vector, 100)]
    assert len(cosines) >= MIN_SAMPLE
    mean = sum(cosines) / len(cosines)
    deviation = (sum((cosine - mean) ** 2 for cosine in cosines) / len(cosines)) ** 0.5
    found = await knowledge.hybrid_search.calibrations.of(collection.id, store, vector)
    assert (found.mean, found.deviation) == pytest.approx((mean, deviation), abs=1e-5)


async def test_a_calibration_is_repeated_after_its_time(knowledge: Knowledge, monkeypatch: pytest.MonkeyPatch) -> None:
    base = await base_of(knowledge, "docs", FACTS)
    samples = 0
    keywords = knowledge.keywords

    async def sample(collection_id: str, count: int) -> list[str]:
        nonlocal samples
        samples += 1
        return await type(keywords).sample(keywords, collection_id, count)

    monkeypatch.setattr(keywords, "sample", sample)
    for _ in range(8):
        await found(knowledge, "kettle", base)
    assert samples == 5
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 3601)
    await found(knowledge, "kettle", base)
    assert samples == 6
