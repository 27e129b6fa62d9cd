"""The search of several knowledge bases: concurrent, under one deadline, and only what is visible."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from aiohttp import web

from ragstore.kit.byte_budget import Share, request_shares
from ragstore_gateway.configurations.configuration import Configuration
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.ingestion.tables import CollectionRow, DocumentRow
from ragstore_gateway.retrieval.question import Question
from ragstore_gateway.retrieval.retriever import BaseQuery, BaseResult
from tests.support.byte_budgets import budget_of
from tests.support.fake_providers import Received, fake_provider, vectors_of
from tests.support.knowledge import Knowledge, knowledge_of

KETTLE = "How long is the warranty of the kettle?"
MEMORY = {"storeType": "in-memory"}


@pytest.fixture
async def knowledge(tmp_path: Path) -> AsyncIterator[Knowledge]:
    """An empty database. The vectors are in the memory of the test."""
    async with knowledge_of(f"sqlite+aiosqlite:///{tmp_path / 'gateway.db'}", "http://127.0.0.1:1") as state:
        yield state


async def search(
    knowledge: Knowledge, *bases: Configuration[KnowledgeBase], seconds: float = 20.0, **fields: Any
) -> list[BaseResult]:
    queries = [BaseQuery(base, **{"max_results": 5, "min_score": 0.0, **fields}) for base in bases]
    return await knowledge.retriever.search(Question(KETTLE), queries, asyncio.get_running_loop().time() + seconds)


def texts(result: BaseResult) -> list[str]:
    assert result.error == ""
    return [passage.text for passage in result.passages]


def tei(url: str) -> dict[str, Any]:
    return {**MEMORY, "embeddingProvider": "tei", "embeddingParameters": {"baseUrl": url}}


async def test_a_base_returns_its_best_passages_first_within_its_limits(knowledge: Knowledge) -> None:
    base = await knowledge.base(
        "docs", ["The kettle is blue.", "The warranty of the kettle lasts three years.", "Trains."], **MEMORY
    )
    assert texts((await search(knowledge, base))[0])[0] == "The warranty of the kettle lasts three years."
    assert len((await search(knowledge, base, max_results=2))[0].passages) == 2
    strict = (await search(knowledge, base, min_score=0.9))[0]
    assert texts(strict) == ["The warranty of the kettle lasts three years."]
    assert all(passage.relevance >= 0.9 for passage in strict.passages)


async def test_bases_with_different_built_in_models_are_searched_together(knowledge: Knowledge) -> None:
    given = ["Trains leave at noon.", "A broken boiler is replaced free of charge within 36 months."]
    words = await knowledge.base("words", given, **MEMORY)
    model = {"embeddingProvider": "local", "embeddingParameters": {"model": "builtin/minilm"}}
    sentences = await knowledge.base("sentences", given, **model, **MEMORY)
    found = await search(knowledge, words, sentences)
    assert texts(found[1])[0] == given[1]
    assert {text for result in found for text in texts(result)} == set(given)


async def test_room_for_the_largest_result_is_reserved_before_the_search_and_the_rest_is_given_back(
    knowledge: Knowledge,
) -> None:
    base = await knowledge.base("docs", ["The kettle is blue."], chunkSize=100_000, **MEMORY)
    budget, response, holder = budget_of(100_000_000), Share(), Share()
    await budget.take(holder, 50_000_000)

    with request_shares(budget, Share(), response):
        searching = asyncio.create_task(search(knowledge, base, max_results=100))
        await asyncio.sleep(0.2)
        assert not searching.done()
        budget.release(holder)
        assert texts((await searching)[0]) == ["The kettle is blue."]
        assert 0 < response.size < 1000


async def test_a_base_without_documents_has_no_passages_and_no_error(knowledge: Knowledge) -> None:
    assert texts((await search(knowledge, await knowledge.base("empty")))[0]) == []


async def test_chunks_of_other_revisions_are_not_found_however_near_they_are(knowledge: Knowledge) -> None:
    base = await knowledge.base("docs", ["Trains leave at noon."], **MEMORY)
    await knowledge.add(base, [f"The warranty of the kettle, note {n}." for n in range(40)], visible=False)
    assert texts((await search(knowledge, base, max_results=1))[0]) == ["Trains leave at noon."]
    async with knowledge.database.session() as session:
        await session.execute(sa.update(DocumentRow).values(current_revision="another"))
    assert texts((await search(knowledge, base))[0]) == []


async def test_a_filter_selects_by_metadata(knowledge: Knowledge) -> None:
    base = await knowledge.base("docs", ["The kettle is blue.", "The kettle is red."], **MEMORY)
    found = await search(knowledge, base, where={"document_name": "docs-1.txt"})
    assert texts(found[0]) == ["The kettle is red."]


async def test_each_model_embeds_the_question_once(knowledge: Knowledge) -> None:
    async def respond(received: Received) -> web.StreamResponse:
        return vectors_of(received)

    async with fake_provider(respond) as one, fake_provider(respond) as two:
        bases = [await knowledge.base(f"a{n}", ["Text."], **tei(one.url)) for n in range(4)]
        bases += [await knowledge.base(f"b{n}", ["Text."], **tei(two.url)) for n in range(3)]
        one.received.clear()
        two.received.clear()
        results = await search(knowledge, *bases)
    assert [texts(result) for result in results] == [["Text."]] * 7
    assert (len(one.received), len(two.received)) == (1, 1)


async def test_a_slow_base_fails_at_the_deadline_and_the_others_respond(knowledge: Knowledge) -> None:
    hanging = asyncio.Event()
    slow = False

    async def respond(received: Received) -> web.StreamResponse:
        if slow:
            await hanging.wait()
        return vectors_of(received)

    async with fake_provider(respond) as provider:
        bases = [
            await knowledge.base("slow", ["Text."], **tei(provider.url)),
            await knowledge.base("docs", ["The kettle is blue."], **MEMORY),
        ]
        slow = True
        results = await search(knowledge, *bases, seconds=1.0)
        hanging.set()
    assert [result.error for result in results] == ["timeout", ""]
    assert texts(results[1]) == ["The kettle is blue."]


async def test_a_failing_base_has_an_error_and_the_others_respond(knowledge: Knowledge) -> None:
    failing = False

    async def respond(received: Received) -> web.StreamResponse:
        return web.Response(status=400, text="CANARY") if failing else vectors_of(received)

    async with fake_provider(respond) as provider:
        bases = [
            await knowledge.base("failing", ["Text."], **tei(provider.url)),
            await knowledge.base("docs", ["The kettle is blue."], **MEMORY),
        ]
        failing = True
        results = await search(knowledge, *bases)
    assert results[0].error == "embedding_rejected"
    assert results[0].failure is not None
    assert texts(results[1]) == ["The kettle is blue."]


async def test_a_store_that_cannot_be_reached_is_an_error_of_its_base(knowledge: Knowledge) -> None:
    base = await knowledge.base("docs", ["The kettle is blue."], **MEMORY)
    other = await knowledge.base("other", ["The kettle is red."], **MEMORY)
    async with knowledge.database.session() as session:
        own = sa.update(CollectionRow).where(CollectionRow.base_id == base.id)
        await session.execute(own.values(store_type="ragstore"))
    results = await search(knowledge, base, other)
    assert results[0].error == "store_unavailable"
    assert texts(results[1]) == ["The kettle is red."]


async def test_a_search_uses_the_collection_that_became_active_during_it(knowledge: Knowledge) -> None:
    embedding = asyncio.Event()
    resume = asyncio.Event()
    waits = False

    async def respond(received: Received) -> web.StreamResponse:
        if waits:
            embedding.set()
            await resume.wait()
        return vectors_of(received)

    async with fake_provider(respond) as provider:
        base = await knowledge.base("docs", ["Old."], **tei(provider.url))
        waits = True
        searching = asyncio.create_task(search(knowledge, base))
        await embedding.wait()
        async with knowledge.database.session() as session:
            await session.execute(sa.update(CollectionRow).values(state="old"))
        waits = False
        await knowledge.add(base, ["New."])
        resume.set()
        results = await searching
    assert texts(results[0]) == ["New."]
