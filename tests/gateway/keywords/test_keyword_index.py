"""The keyword index over SQLite and PostgreSQL: BM25, and that it has what the transactions say."""

from __future__ import annotations

import gc
import math
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from ragstore_gateway.database.database import Database
from ragstore_gateway.ingestion.tables import CollectionRow
from ragstore_gateway.keywords import keyword_index
from ragstore_gateway.keywords.keyword_index import (
    IndexedChunk,
    KeywordIndex,
    drop_keywords,
    put_keywords,
    remove_keywords,
)
from ragstore_gateway.keywords.tables import KeywordChunkRow, KeywordIndexRow
from ragstore_gateway.keywords.words import words
from ragstore_gateway.splitting.chunk import ChunkSpan
from tests.support.statements import thread_calls

COLLECTION: Final = "kb_docs"
TEXTS: Final = {
    "a1": "The kettle is blue. The kettle boils water.",
    "a2": "Trains leave at noon, and water is sold in them.",
    "b1": "Water water water everywhere",
    "b2": "A blue train",
    "c1": "naïve Größe 東京都 don't user_id 1e5 -5 or and not null",
}


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A database with two collections."""
    found = Database(make_url(database_url))
    async with found.running():
        async with found.session() as session:
            session.add_all([_collection(COLLECTION), _collection("kb_other")])
        yield found


def _collection(id: str) -> CollectionRow:
    return CollectionRow(
        id=id,
        base_id=id,
        base_version=1,
        state="active",
        fingerprint="",
        provider="local",
        embedding_parameters={},
        store_type="in-memory",
        store_parameters={},
        chunking={},
        dimension=2,
        created_on=datetime.now(UTC),
    )


async def put(database: Database, texts: Mapping[str, str], collection: str = COLLECTION) -> None:
    """Index chunks, whose document is the first character of their id."""
    async with database.session() as session:
        for document in sorted({id[0] for id in texts}):
            own = [IndexedChunk(id, tuple(words(text))) for id, text in texts.items() if id[0] == document]
            await put_keywords(session, collection, {document: own})


async def search(database: Database, question: str, limit: int = 10, collection: str = COLLECTION) -> dict[str, float]:
    """The scores of the chunks that are found."""
    return (await KeywordIndex(database).search(collection, question, limit)).scores


def bm25(texts: Mapping[str, str], question: str) -> dict[str, float]:
    """BM25 as SQLite documents it, over all chunks."""
    chunks = {id: list(words(text)) for id, text in texts.items()}
    mean = sum(map(len, chunks.values())) / len(chunks)
    scores = dict.fromkeys(chunks, 0.0)
    for word in set(words(question)):
        having = sum(word in chunk for chunk in chunks.values())
        weight = max(math.log((len(chunks) - having + 0.5) / (having + 0.5)), 1e-6) if having else 0.0
        for id, chunk in chunks.items():
            times = chunk.count(word)
            scores[id] += weight * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * len(chunk) / mean))
    return scores


def test_the_garbage_collector_does_not_visit_the_chunks_of_a_large_document() -> None:
    chunks = [IndexedChunk(str(number), tuple(words(text))) for number, text in enumerate(TEXTS.values())]
    spans = [ChunkSpan(0, 1, 1, None, "", {})]
    assert not any(gc.is_tracked(each) for each in [*chunks, *spans])


@pytest.mark.parametrize(
    "question", ["kettle", "blue water", "the trains", "water train noon", "Naive grosse 京都 1E5"]
)
async def test_the_scores_are_those_of_bm25(database: Database, question: str) -> None:
    await put(database, TEXTS)
    expected = bm25(TEXTS, question)
    found = await KeywordIndex(database).search(COLLECTION, question, 10)
    assert found.scores == pytest.approx({id: score for id, score in expected.items() if score}, rel=1e-4, abs=1e-6)
    assert list(found.scores) == sorted(found.scores, key=lambda id: -found.scores[id])
    mean = sum(expected.values()) / len(expected)
    variance = sum((score - mean) ** 2 for score in expected.values()) / len(expected)
    assert found.deviation == pytest.approx(math.sqrt(variance), rel=1e-3)


@pytest.mark.parametrize("times", [1, 2, 3, 10, 100, 200])
async def test_a_word_that_occurs_many_times_counts_as_in_bm25(database: Database, times: int) -> None:
    texts = {"a1": "water " * times, "b1": "train", "c1": "bus"}
    await put(database, texts)
    assert await search(database, "water") == pytest.approx({"a1": bm25(texts, "water")["a1"]}, rel=1e-3)


@pytest.mark.parametrize("question", ["", "!", "absent", '"', "a OR b*", "NEAR(x y)", "'; --", "\0"])
async def test_no_question_is_syntax(database: Database, question: str) -> None:
    await put(database, {"a1": "kettle"})
    assert await search(database, question) == {}


async def test_a_limit_keeps_the_best(database: Database) -> None:
    await put(database, TEXTS)
    everything = await search(database, "water kettle")
    assert list(await search(database, "water kettle", 2)) == list(everything)[:2]


async def test_a_document_that_is_indexed_again_has_its_new_words_only(database: Database) -> None:
    await put(database, TEXTS)
    await put(database, {"a9": "A teapot"})
    assert set(await search(database, "kettle teapot")) == {"a9"}
    left = {id: text for id, text in TEXTS.items() if id[0] != "a"} | {"a9": "A teapot"}
    assert await search(database, "water") == pytest.approx({"b1": bm25(left, "water")["b1"]}, rel=1e-4)


async def test_a_removed_document_is_not_found_and_does_not_count(database: Database) -> None:
    await put(database, TEXTS)
    async with database.session() as session:
        await remove_keywords(session, COLLECTION, ["a", "absent"])
    left = {id: text for id, text in TEXTS.items() if id[0] != "a"}
    assert await search(database, "water") == pytest.approx({"b1": bm25(left, "water")["b1"]}, rel=1e-4)
    async with database.reading() as session:
        row = (await session.scalars(sa.select(KeywordIndexRow))).one()
        assert (row.chunks, row.words) == (len(left), sum(len(list(words(text))) for text in left.values()))


async def test_collections_do_not_see_each_other(database: Database) -> None:
    await put(database, TEXTS)
    await put(database, {"x1": "kettle"}, "kb_other")
    assert set(await search(database, "kettle")) == {"a1"}
    assert set(await search(database, "kettle", collection="kb_other")) == {"x1"}


async def test_an_index_that_is_dropped_leaves_nothing(database: Database) -> None:
    def tables(session: sa.Connection) -> set[str]:
        return set(sa.inspect(session).get_table_names())

    async with database.reading() as session:
        before = await (await session.connection()).run_sync(tables)
    await put(database, TEXTS)
    async with database.session() as session:
        await drop_keywords(session, COLLECTION)
    assert await search(database, "kettle") == {}
    async with database.reading() as session:
        assert (await session.scalars(sa.select(KeywordChunkRow))).all() == []
        assert await (await session.connection()).run_sync(tables) == before
    await put(database, TEXTS)
    assert set(await search(database, "kettle")) == {"a1"}


async def test_a_transaction_that_is_rolled_back_changes_nothing(database: Database) -> None:
    await put(database, {"a1": "kettle"})
    async with database.session() as session:
        await put_keywords(session, COLLECTION, {"a": [IndexedChunk("a2", ("teapot",))]})
        await put_keywords(session, "kb_other", {"x": [IndexedChunk("x1", ("teapot",))]})
        await session.rollback()
    assert set(await search(database, "kettle teapot")) == {"a1"}
    assert await search(database, "teapot", collection="kb_other") == {}


async def test_frequent_words_are_left_out_beside_rare_ones(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(database, {f"{chr(97 + number)}1": "water " + "kettle " * (number == 3) for number in range(20)})
    monkeypatch.setattr(keyword_index, "MAX_MATCHES", 5)
    assert set(await search(database, "water kettle", 30)) == {"d1"}
    assert len(await search(database, "water", 30)) == 20


async def test_words_of_many_chunks_are_left_out_beside_others(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(database, {f"{chr(97 + number)}1": "water " + "kettle " * (number < 8) for number in range(20)})
    monkeypatch.setattr(keyword_index, "MIN_FREQUENT", 5)
    assert len(await search(database, "water kettle", 30)) == 8
    assert len(await search(database, "water", 30)) == 20


async def test_on_sqlite_a_search_is_one_call_of_a_thread(tmp_path: Path) -> None:
    database = Database(make_url(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}"))
    async with database.running():
        async with database.session() as session:
            session.add(_collection(COLLECTION))
        await put(database, TEXTS)
        with thread_calls() as calls:
            assert set(await search(database, "the blue kettle")) == {"a1", "b2"}
        assert len(calls) == 1


async def test_a_collection_without_an_index_has_no_hits(database: Database) -> None:
    assert await search(database, "kettle", collection="absent") == {}


async def test_a_sample_has_ids_of_different_chunks(database: Database) -> None:
    await put(database, TEXTS)
    index = KeywordIndex(database)
    assert sorted(await index.sample(COLLECTION, 100)) == sorted(TEXTS)
    assert len(set(await index.sample(COLLECTION, 3))) == 3
    assert await index.sample("absent", 3) == []
