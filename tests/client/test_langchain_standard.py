"""LangChain's standard tests of vector stores and retrievers, over the real service."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests

from ragstore_client import Client, NewDocument
from ragstore_client.context import ClientSource, ContextBuilder, ContextSettings
from ragstore_client.integrations.langchain import RagstoreContextRetriever, RagstoreVectorStore
from tests.client.fake_servers import vector_of

pytestmark = pytest.mark.process


class TestRagstoreVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, store: Client) -> Iterator[VectorStore]:
        name = f"langchain_{uuid4()}"
        yield RagstoreVectorStore(store, name, self.get_embeddings())
        store.delete_collection(name)


@pytest.fixture(scope="module")
def animals(store: Client) -> Iterator[str]:
    name = f"langchain_{uuid4()}"
    store.create_collection(name)
    texts = [f"The animal number {number} eats grass." for number in range(8)]
    documents = [NewDocument(id=text[-14:-12], text=text, embedding=vector_of(text)) for text in texts]
    store.upsert_documents(name, documents)
    yield name
    store.delete_collection(name)


class TestRagstoreContextRetriever(RetrieversIntegrationTests):
    @pytest.fixture(autouse=True)
    def _source(self, store: Client, animals: str) -> None:
        source = ClientSource(store, vector_of, collections=[animals])
        self._builder = ContextBuilder(source, settings=ContextSettings(similarity_threshold=-1))

    @property
    def retriever_constructor(self) -> type[RagstoreContextRetriever]:
        return RagstoreContextRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, object]:
        return {"builder": self._builder}

    @property
    def retriever_query_example(self) -> str:
        return "Which animal eats grass?"
