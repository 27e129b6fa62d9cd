"""The vector store and the retriever for LangChain, over the real service."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ragstore_client import Client, InvalidConfiguration, InvalidInput
from ragstore_client.context import AsyncContextBuilder, ClientSource, ContextBuilder, ContextSettings
from ragstore_client.integrations.langchain import RagstoreContextRetriever, RagstoreVectorStore
from tests.client.fake_servers import vector_of

pytestmark = pytest.mark.process

TEXTS = ["Cats sleep.", "Cats sleep a lot.", "Dogs bark.", "Cows eat grass."]


class WordEmbeddings(Embeddings):
    """Embeds texts by their words."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [vector_of(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return vector_of(text)


@pytest.fixture
def vectors(store: Client, client_collection: str) -> RagstoreVectorStore:
    metadatas: list[dict[str, object]] = [{"number": number, "nothing": None} for number in range(len(TEXTS))]
    return RagstoreVectorStore.from_texts(
        TEXTS, WordEmbeddings(), metadatas, ids=list("abcd"), client=store, collection=client_collection
    )


def test_texts_are_found_with_ids_metadata_and_scores(vectors: RagstoreVectorStore) -> None:
    ((document, score), _) = vectors.similarity_search_with_score("Dogs bark.", k=2)
    assert document == Document(id="c", page_content="Dogs bark.", metadata={"number": 2})
    assert score == pytest.approx(1)
    assert vectors.similarity_search_by_vector(vector_of("Dogs bark."), k=1) == [document]
    ((_, relevance),) = vectors.similarity_search_with_relevance_scores("Dogs bark.", k=1)
    assert relevance == pytest.approx(1)


def test_a_filter_narrows_the_search(vectors: RagstoreVectorStore) -> None:
    found = vectors.similarity_search("Cats sleep.", filter={"number": {"$gte": 2}})
    assert {document.id for document in found} == {"c", "d"}


def test_mmr_prefers_unlike_texts_and_lambda_1_is_similarity(vectors: RagstoreVectorStore) -> None:
    alike = vectors.max_marginal_relevance_search("Cats sleep.", k=2, lambda_mult=1)
    unlike = vectors.max_marginal_relevance_search("Cats sleep.", k=2, lambda_mult=0)
    assert [document.id for document in alike] == ["a", "b"]
    assert unlike[0].id == "a"
    assert unlike[1].id in ("c", "d")


async def test_the_asynchronous_methods_work(vectors: RagstoreVectorStore) -> None:
    (added,) = await vectors.aadd_documents([Document(page_content="Birds sing.")])
    (found,) = await vectors.asimilarity_search("Birds sing.", k=1)
    assert found.id == added
    assert await vectors.adelete([added])
    assert await vectors.aget_by_ids([added, "a"]) == vectors.get_by_ids(["a"])


def test_deleting_without_ids_empties_the_collection(vectors: RagstoreVectorStore) -> None:
    assert vectors.delete()
    assert vectors.similarity_search("Cats") == []


def test_metadata_that_cannot_be_stored_is_an_error(vectors: RagstoreVectorStore) -> None:
    with pytest.raises(InvalidInput):
        vectors.add_texts(["x"], [{"a": float("nan")}])


def test_from_texts_needs_a_collection(store: Client) -> None:
    with pytest.raises(InvalidConfiguration, match="client= and collection="):
        RagstoreVectorStore.from_texts([], WordEmbeddings(), client=store)


def builder(client: Client, collection: str) -> ContextBuilder:
    return ContextBuilder(ClientSource(client, vector_of, collections=[collection]))


def test_the_retriever_returns_passages_with_citations(
    vectors: RagstoreVectorStore, store: Client, client_collection: str
) -> None:
    retriever = RagstoreContextRetriever(builder=builder(store, client_collection), k=1)
    (document,) = retriever.invoke("How much do cats sleep?")
    assert document.metadata.keys() == {"number", "citation", "similarity"}
    assert len(retriever.invoke("How much do cats sleep?", k=2)) == 2


async def test_the_number_of_documents_of_a_call_holds_for_a_synchronous_builder_in_a_coroutine(
    vectors: RagstoreVectorStore, store: Client, client_collection: str
) -> None:
    retriever = RagstoreContextRetriever(builder=builder(store, client_collection), k=1)
    assert len(await retriever.ainvoke("How much do cats sleep?", k=2)) == 2


async def test_the_retriever_is_asynchronous_with_an_asynchronous_builder(
    vectors: RagstoreVectorStore, store: Client, client_collection: str
) -> None:
    source = ClientSource(store, vector_of, collections=[client_collection])
    retriever = RagstoreContextRetriever(builder=AsyncContextBuilder(source, settings=ContextSettings(top_k_max=1)))
    assert len(await retriever.ainvoke("How much do cats sleep?")) == 1
    assert len(await retriever.ainvoke("How much do cats sleep?", k=2)) == 2
    with pytest.raises(InvalidConfiguration, match="ainvoke"):
        retriever.invoke("How much do cats sleep?")
