"""The passages of plain `rag/` models: the best one of each of the nearest URLs. Diversity orders them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from aiohttp import web
from qdrant_client import AsyncQdrantClient
from qdrant_client.models import Distance, PointStruct, VectorParams

from ragstore_client import AsyncClient, CallTimeout, Client, NewDocument, QueryResults
from ragstore_gateway.chat.conversation import Conversation
from ragstore_gateway.chat.rag_models import Augmentation, Caller
from ragstore_gateway.configurations.default_bases import default_base
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.conversations.step import Step
from ragstore_gateway.embeddings.cross_encoder import CrossEncoders
from ragstore_gateway.retrieval.assistant import AssistantServices
from ragstore_gateway.retrieval.http_calls import HttpCalls
from ragstore_gateway.retrieval.plain_models import PlainModels
from ragstore_gateway.retrieval.ranking import FAN_OUT, Ranking
from ragstore_gateway.retrieval.retriever import BaseQuery, BaseResult, KnowledgeRetriever
from ragstore_gateway.retrieval.source_prompt import SourceLimits
from ragstore_gateway.retrieval.tasks import TaskRetrieval
from ragstore_gateway.retrieval.workflow import Workflows
from ragstore_gateway.settings import Settings
from tests.support.fake_providers import FakeProvider, Received, fake_provider, json_response
from tests.support.knowledge import Knowledge, knowledge_of
from tests.support.loop_threads import in_thread
from tests.support.qdrant_server import qdrant_server
from tests.support.servers import Served

pytestmark = pytest.mark.process

DIMENSION = 64
TOP_K = 5


def vector(similarity: float, direction: int) -> list[float]:
    """A vector of a similarity to the question. Vectors of one direction are similar to each other."""
    components = [0.0] * DIMENSION
    components[0], components[direction] = similarity, math.sqrt(1 - similarity**2)
    return components


async def first_axis(received: Received) -> web.StreamResponse:
    """Embed each text as the first axis."""
    body = received.json
    assert isinstance(body, dict)
    return json_response([vector(1.0, 1)] * len(body["inputs"]))


def passage(name: str, similarity: float, direction: int, url: str = "") -> NewDocument:
    return NewDocument(
        id=name,
        text=f"Text of {name}",
        embedding=vector(similarity, direction),
        metadata={"url": f"https://m.example/{url}"} if url else {},
    )


@pytest.fixture(scope="module")
async def provider() -> AsyncIterator[FakeProvider]:
    """A server that embeds each text as the first axis."""
    async with fake_provider(first_axis) as found:
        yield found


@dataclass
class Plain:
    """Plain models over one base, with a database of their own.

    Attributes:
        steps: what they have recorded.
        base: the base; the default one over the collection of the store when None.
    """

    gateway: Served
    provider: FakeProvider
    collection: str
    folder: Path
    steps: list[Step]
    base: KnowledgeBase | None = None

    def stored(self, passages: Sequence[NewDocument]) -> None:
        """Store records, as another program does."""
        with Client(self.gateway.url) as client:
            client.upsert_documents(self.collection, passages)

    @asynccontextmanager
    async def knowledge(self, settings: Settings) -> AsyncIterator[Knowledge]:
        """The state of a gateway with a base over the collection."""
        database = f"sqlite+aiosqlite:///{self.folder / uuid4().hex}.db"
        async with knowledge_of(database, self.gateway.url, settings) as knowledge:
            await knowledge.bases.create(self.base or default_base(self.collection))
            yield knowledge

    async def augmented(self, given: Mapping[str, object] | None = None, question: str = "") -> Augmentation:
        """The passages that a model adds to a question."""
        own = {"embedding_provider": "tei", "embedding_url": self.provider.url, "rag_collections": self.collection}
        settings = Settings(**(own | dict(given or {})))  # type: ignore[arg-type]  # fields of any type
        async with self.knowledge(settings) as knowledge:
            http_calls = HttpCalls([], knowledge.embeddings.secrets)
            ranking = Ranking(
                knowledge.embeddings.default,
                knowledge.embeddings.secrets,
                httpx.AsyncClient(),
                CrossEncoders(knowledge.embeddings.folders),
            )
            limits = SourceLimits.from_settings(settings)
            retrieval = TaskRetrieval(knowledge.retriever, http_calls, ranking, limits)
            workflows = Workflows(knowledge.bases)

            async def record(step: Step) -> None:
                self.steps.append(step)

            services = AssistantServices(settings, workflows, retrieval, record)
            conversation = Conversation(question or "How long is the warranty?", [], [], {"content": b'""'}, [])  # type: ignore[dict-item]  # bytes are JSON
            return await PlainModels(services).model(["m"]).augment(conversation, Caller(conversation_id="c"))

    async def sources(self, **settings: object) -> list[str]:
        """The ids of the best passages of the sources in the prompt, in their order."""
        return [each.id for each in (await self.augmented(settings)).passages if not each.is_further]


@pytest.fixture
def plain(gateway: Served, provider: FakeProvider, tmp_path: Path) -> Plain:
    """Plain models over an empty collection."""
    name = f"memory-{uuid4().hex[:8]}"
    with Client(gateway.url) as client:
        client.create_collection(name)
    return Plain(gateway, provider, name, tmp_path, [])


@pytest.mark.parametrize("diversity", [0.0, 0.7, 1.0])
async def test_the_nearest_urls_are_the_sources_whatever_the_diversity(plain: Plain, diversity: float) -> None:
    """The near ones repeat each other, and each far one is unlike all others: 15 were fetched, and far ones chosen."""
    near = [passage(f"near-{n}", 0.9 - n / 100, 1, f"near-{n}") for n in range(TOP_K)]
    far = [passage(f"far-{n}", 0.5 - n / 100, 2 + n, f"far-{n}") for n in range(20)]
    plain.stored([*far, *near])
    found = await plain.sources(rag_diversity=diversity)
    assert found[0] == "near-0"
    assert set(found) == {f"near-{n}" for n in range(TOP_K)}


async def test_by_default_diversity_orders_the_sources_by_their_own_vectors(plain: Plain) -> None:
    near = [passage(f"near-{n}", 0.9 - n / 100, 1, f"near-{n}") for n in range(TOP_K - 1)]
    plain.stored([*near, passage("other", 0.6, 2, "other")])
    plain.provider.received.clear()
    found = await plain.sources()
    assert sorted(found) == ["near-0", "near-1", "near-2", "near-3", "other"]
    assert found[:2] == ["near-0", "other"]
    assert len(plain.provider.received) == 1, "only the question is embedded"
    assert await plain.sources(rag_diversity=0.0) == ["near-0", "near-1", "near-2", "near-3", "other"]


async def test_an_embedder_that_reaches_its_own_time_limit_is_a_timeout(plain: Plain) -> None:
    async def slow(received: Received) -> web.StreamResponse:
        await asyncio.sleep(3600)
        raise AssertionError

    plain.stored([passage("a", 0.9, 1)])
    async with fake_provider(slow) as provider:
        added = await plain.augmented({"embedding_url": provider.url, "embedding_timeout_seconds": 0.2})
    assert (added.reason, added.failed, list(added.passages)) == ("timeout", True, [])


async def test_a_url_with_many_near_passages_leaves_room_for_the_others(plain: Plain) -> None:
    """15 passages were fetched, all of them of one URL, which was then the only source."""
    book = [passage(f"book-{n}", 0.9 - n / 1000, 1, "book") for n in range(40)]
    pages = [passage(f"page-{n}", 0.7 - n / 100, 2, f"page-{n}") for n in range(6)]
    plain.stored([*book, *pages])
    assert await plain.sources(rag_diversity=0.0) == ["book-0", "page-0", "page-1", "page-2", "page-3"]


async def test_a_text_that_two_urls_share_costs_neither_of_them_its_best_passage(plain: Plain) -> None:
    footers = [passage(f"footer-{n}", 0.8 - n / 100, 2, f"page-{n}") for n in range(3)]
    shared = [
        NewDocument(id=each.id, text="Imprint", embedding=each.embedding, metadata=each.metadata) for each in footers
    ]
    plain.stored([*shared, *(passage(f"body-{n}", 0.9 - n / 20, 1, f"page-{n}") for n in range(2))])
    assert await plain.sources(rag_diversity=0.0) == ["body-0", "body-1", "footer-2"]


async def test_passages_without_a_url_are_sources_of_their_own(plain: Plain) -> None:
    plain.stored([passage(f"note-{n}", 0.9 - n / 100, 1) for n in range(8)])
    assert await plain.sources(rag_diversity=0.0) == [f"note-{n}" for n in range(TOP_K)]


async def test_no_more_passages_are_fetched_than_the_threshold_allows(
    plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = [passage(f"book-{n}", 0.9 - n / 1000, 1, "book") for n in range(10)]
    plain.stored([*book, *(passage(f"far-{n}", 0.1, 2, f"far-{n}") for n in range(30))])
    counts: list[int] = []
    search = KnowledgeRetriever.search

    async def counted(
        self: KnowledgeRetriever, question: object, queries: Sequence[BaseQuery], deadline: float
    ) -> list[BaseResult]:
        counts.extend(query.max_results for query in queries)
        return await search(self, question, queries, deadline)  # type: ignore[arg-type]  # passed on as given

    monkeypatch.setattr(KnowledgeRetriever, "search", counted)
    assert await plain.sources(rag_similarity_threshold=0.2) == ["book-0"]
    assert counts == [FAN_OUT * TOP_K]


async def test_what_was_found_is_kept_when_the_search_for_further_urls_fails(
    plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain.stored([passage(f"book-{n}", 0.9 - n / 1000, 1, "book") for n in range(40)])
    query = AsyncClient.query

    async def first_only(self: AsyncClient, *arguments: object, **options: object) -> QueryResults:
        if int(str(options["top_k"])) > 2 * FAN_OUT * TOP_K:
            raise CallTimeout("no response in time")
        return await query(self, *arguments, **options)  # type: ignore[arg-type]  # passed on as given

    monkeypatch.setattr(AsyncClient, "query", first_only)
    assert await plain.sources() == ["book-0"]


async def test_a_retrieval_leaves_a_step_with_the_passages_and_what_was_left_out(plain: Plain) -> None:
    plain.stored([passage(f"page-{n}", 0.9 - n / 100, 1, f"page-{n}") for n in range(3)])
    await plain.augmented({"rag_max_sources": 2, "rag_diversity": 0.0})
    (step,) = plain.steps
    (trace,) = step.traces["rag:trace:rag"]
    assert (step.assistant, step.conversation, trace["kb"]) == ("", "c", plain.collection)
    assert [each["id"] for each in trace["passages"]] == ["page-0", "page-1", "page-2"]
    assert [each.get("omitted", False) for each in trace["passages"]] == [False, False, True]
    assert [(each["fate"], each.get("number")) for each in trace["passages"]] == [
        ("context", 1),
        ("context", 2),
        ("no_room", None),
    ]


async def test_the_trace_says_why_a_candidate_is_not_a_source(plain: Plain) -> None:
    book = [passage("book-0", 0.9, 1, "book"), passage("book-1", 0.8, 1, "book"), passage("far", 0.1, 2, "far")]
    copy = NewDocument(
        id="copy", text="Text of book-0", embedding=vector(0.7, 1), metadata={"url": "https://c.example"}
    )
    plain.stored([*book, copy, *(passage(f"page-{n}", 0.6 - n / 100, 1, f"page-{n}") for n in range(2))])
    await plain.augmented({"rag_top_k": 2, "rag_diversity": 0.0, "rag_similarity_threshold": 0.2})
    (trace,) = plain.steps[0].traces["rag:trace:rag"]
    assert {each["id"]: each["fate"] for each in trace["passages"]} == {
        "book-0": "context",
        "book-1": "context",
        "copy": "duplicate",
        "page-0": "context",
        "page-1": "ranked_away",
        "far": "below_min_score",
    }
    assert trace["retrievedCount"] == 3


def chapter(number: int, similarity: float) -> NewDocument:
    return NewDocument(
        id=f"book-{number}",
        text=f"Chapter {number}",
        embedding=vector(similarity, 1),
        metadata={"url": "https://m.example/book", "chunk_ix": number},
    )


async def test_further_passages_of_a_source_share_its_number_in_the_order_of_its_text(plain: Plain) -> None:
    plain.stored([chapter(1, 0.7), chapter(2, 0.6), chapter(3, 0.9), passage("page", 0.8, 2, "page")])
    added = await plain.augmented({"rag_diversity": 0.0})
    assert [(each.number, each.id, each.is_further) for each in added.passages] == [
        (1, "book-1", True),
        (1, "book-2", True),
        (1, "book-3", False),
        (2, "page", False),
    ]
    assert added.messages is not None
    assert (
        b"Source [1] https://m.example/book\\nChapter 1\\n\\nSource [1] https://m.example/book\\nChapter 2\\n\\n"
        b"Source [1] https://m.example/book\\nChapter 3\\n\\nSource [2] https://m.example/page\\nText of page\\n\\n"
        b"Sources:\\n- [1] https://m.example/book\\n- [2] https://m.example/page\\n"
    ) in bytes(added.messages)


async def test_further_passages_take_no_room_of_other_sources(plain: Plain) -> None:
    plain.stored([*(chapter(number, 0.9 - number / 100) for number in range(9)), passage("page", 0.5, 2, "page")])
    added = await plain.augmented({"rag_diversity": 0.0, "rag_top_k": 2, "rag_token_budget": 200})
    assert {each.id for each in added.passages if not each.is_further} == {"book-0", "page"}
    further = [each.id for each in added.passages if each.is_further]
    assert further == [f"book-{number}" for number in range(1, 1 + len(further))]
    assert 0 < len(further) < 5
    (trace,) = plain.steps[-1].traces["rag:trace:rag"]
    assert {each["id"] for each in trace["passages"] if each["fate"] == "same_source"} >= {"book-8"}


async def test_a_prompt_has_at_most_three_times_as_many_passages_as_sources(plain: Plain) -> None:
    plain.stored([chapter(number, 0.9 - number / 100) for number in range(20)])
    assert len((await plain.augmented({"rag_top_k": 2, "rag_diversity": 0.0})).passages) == 3 * 2


async def test_a_source_with_pages_is_named_with_its_page(plain: Plain) -> None:
    metadata: dict[str, str | int] = {"url": "file:///home/ann/two.pdf", "page_number": 2}
    plain.stored([NewDocument(id="a", text="Tea", embedding=vector(0.9, 1), metadata={**metadata})])
    added = await plain.augmented()
    assert added.messages is not None
    assert b"Source [1] two.pdf, page 2\\nTea" in bytes(added.messages)
    assert added.passages[0].title == "two.pdf, page 2"


async def test_small_talk_is_not_searched_for(plain: Plain) -> None:
    plain.stored([passage("a", 0.9, 1)])
    added = await plain.augmented(question="thanks!")
    assert (added.reason, list(added.passages), added.messages) == ("short_question", [], None)


async def test_a_memory_of_qdrant_is_searched_by_the_name_of_its_base(plain: Plain) -> None:
    with in_thread(qdrant_server) as server:
        client = AsyncQdrantClient(host="127.0.0.1", grpc_port=server.port, prefer_grpc=True, check_compatibility=False)
        await client.create_collection("memory", vectors_config=VectorParams(size=DIMENSION, distance=Distance.COSINE))
        payload = {"text": "Three years.", "url": "https://m.example/warranty", "chunk_ix": 0, "ts": 1}
        await client.upsert("memory", [PointStruct(id=7, vector=vector(0.9, 1), payload=payload)], wait=True)
        await client.close()
        parameters = {"host": "127.0.0.1", "port": server.port, "collection": "memory"}
        plain.base = KnowledgeBase(name=plain.collection, store_type="qdrant", store_parameters=parameters)
        added = await plain.augmented()
    assert [(each.id, each.text, each.url) for each in added.passages] == [
        ("7", "Three years.", "https://m.example/warranty")
    ]
