"""Retrievers of LangChain and LlamaIndex over a knowledge base."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest
from langchain_tests.integration_tests import RetrieversIntegrationTests
from llama_index.core.schema import NodeWithScore

from ragstore_client import BadRequest, InvalidConfiguration, NotFound
from ragstore_client.gateway import AsyncGatewayClient, GatewayClient, KnowledgeBase, TextDocument
from ragstore_client.integrations.langchain import GatewayRetriever
from ragstore_client.integrations.llamaindex import GatewayLlamaRetriever
from tests.support.servers import Served

pytestmark = pytest.mark.process

QUESTION = "Which animal eats grass?"
CATTLE = "The animal number 3 eats grass."


@pytest.fixture(scope="module")
def plain(gateway: Served) -> Iterator[GatewayClient]:
    """A synchronous client of the shared gateway."""
    with GatewayClient(gateway.url) as client:
        yield client


@pytest.fixture
async def concurrent(gateway: Served) -> AsyncIterator[AsyncGatewayClient]:
    """An asynchronous client of the shared gateway."""
    async with AsyncGatewayClient(gateway.url) as client:
        yield client


@pytest.fixture(scope="module")
def animals(plain: GatewayClient) -> Iterator[str]:
    """A base with eight documents."""
    base = plain.bases.create(KnowledgeBase(name=f"animals-{uuid4().hex[:8]}", min_score=0.0, max_results=5))
    documents = [
        TextDocument(f"{number}.txt", f"The animal number {number} eats grass.", metadata={"number": number})
        for number in range(8)
    ]
    plain.ingest_all(base, documents).raise_for_failures()
    yield base.id
    plain.bases.delete(base, permanent=True)


class TestGatewayRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _base(self, plain: GatewayClient, animals: str) -> None:
        self._params = {"client": plain, "base": animals}

    @property
    def retriever_constructor(self) -> type[GatewayRetriever]:
        return GatewayRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, object]:
        return self._params

    @property
    def retriever_query_example(self) -> str:
        return QUESTION


def test_langchain_documents_have_metadata_source_and_score(plain: GatewayClient, animals: str) -> None:
    [found] = GatewayRetriever(client=plain, base=animals, k=1, where={"number": 3}).invoke(QUESTION)
    assert found.page_content == CATTLE
    assert (found.metadata["number"], found.metadata["source"]) == (3, "3.txt")
    assert 0.5 < found.metadata["score"] <= 1
    assert found.id


async def test_a_langchain_retriever_runs_with_an_asynchronous_client(
    concurrent: AsyncGatewayClient, animals: str
) -> None:
    retriever = GatewayRetriever(client=concurrent, base=animals)
    assert len(await retriever.ainvoke(QUESTION)) == 5
    assert len(await retriever.ainvoke(QUESTION, k=2)) == 2
    with pytest.raises(InvalidConfiguration, match="GatewayClient"):
        retriever.invoke(QUESTION)


async def test_the_number_of_documents_holds_for_a_synchronous_client_in_a_coroutine(
    plain: GatewayClient, animals: str
) -> None:
    assert len(await GatewayRetriever(client=plain, base=animals).ainvoke(QUESTION, k=2)) == 2


def test_a_minimum_relevance_leaves_out_passages(plain: GatewayClient, animals: str) -> None:
    assert GatewayRetriever(client=plain, base=animals, min_score=1.0).invoke("lift") == []


def test_errors_are_the_errors_of_the_client(plain: GatewayClient, animals: str) -> None:
    with pytest.raises(NotFound):
        GatewayRetriever(client=plain, base="nothing").invoke(QUESTION)
    with pytest.raises(BadRequest):
        GatewayLlamaRetriever(plain, animals, where={"number": {"$x": 1}}).retrieve(QUESTION)


def shown(nodes: list[NodeWithScore]) -> list[tuple[str, object]]:
    return [(each.node.get_content(), each.node.metadata["source"]) for each in nodes]


async def test_a_llamaindex_retriever_returns_nodes_with_their_relevance(
    plain: GatewayClient, concurrent: AsyncGatewayClient, animals: str
) -> None:
    retriever = GatewayLlamaRetriever(plain, animals, where={"number": 3})
    [node] = retriever.retrieve(QUESTION)
    assert shown([node]) == [(CATTLE, "3.txt")]
    assert 0.5 < (node.score or 0) <= 1
    assert shown(await retriever.aretrieve(QUESTION)) == [(CATTLE, "3.txt")]
    other = GatewayLlamaRetriever(concurrent, animals, similarity_top_k=2)
    assert len(await other.aretrieve(QUESTION)) == 2
    with pytest.raises(InvalidConfiguration, match="GatewayClient"):
        other.retrieve(QUESTION)
