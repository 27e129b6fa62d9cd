"""The vector store for LlamaIndex, over the real service."""

from __future__ import annotations

import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from ragstore_client import Client, InvalidInput
from ragstore_client.integrations.llamaindex import RagstoreLlamaVectorStore
from tests.client.fake_servers import vector_of

pytestmark = pytest.mark.process

TEXTS = {"a": "Cats sleep.", "b": "Cats sleep a lot.", "c": "Dogs bark.", "d": "Cows eat grass."}


class WordEmbedding(BaseEmbedding):
    """Embeds texts by their words."""

    def _get_text_embedding(self, text: str) -> list[float]:
        return vector_of(text)

    def _get_query_embedding(self, query: str) -> list[float]:
        return vector_of(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return vector_of(query)


def node(name: str, number: int) -> TextNode:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="cats" if "Cats" in TEXTS[name] else "others")}
    metadata = {"number": number, "kind": name}
    return TextNode(
        id_=name, text=TEXTS[name], embedding=vector_of(TEXTS[name]), metadata=metadata, relationships=source
    )


@pytest.fixture
def vectors(store: Client, client_collection: str) -> RagstoreLlamaVectorStore:
    made = RagstoreLlamaVectorStore(store, client_collection)
    assert made.add([node(name, number) for number, name in enumerate(TEXTS)]) == list(TEXTS)
    return made


def ids(vectors: RagstoreLlamaVectorStore, text: str = "Cats sleep.", top_k: int = 4, **query: object) -> list[str]:
    found = vectors.query(VectorStoreQuery(vector_of(text), top_k, **query))  # type: ignore[arg-type]
    return list(found.ids or [])


def filters(*each: MetadataFilter | MetadataFilters, condition: str = "and") -> MetadataFilters:
    return MetadataFilters(filters=list(each), condition=FilterCondition(condition))


def test_nodes_are_found_as_they_were_stored(vectors: RagstoreLlamaVectorStore) -> None:
    found = vectors.query(VectorStoreQuery(vector_of("Dogs bark."), 1))
    assert found.nodes is not None
    assert list(found.similarities or []) == pytest.approx([1])
    (dogs,) = found.nodes
    assert isinstance(dogs, TextNode)
    assert (dogs.node_id, dogs.text, dogs.metadata) == ("c", "Dogs bark.", {"number": 2, "kind": "c"})
    assert dogs.ref_doc_id == "others"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (filters(MetadataFilter(key="number", value=2, operator=FilterOperator.GTE)), {"c", "d"}),
        (filters(MetadataFilter(key="kind", value=["a", "d"], operator=FilterOperator.IN)), {"a", "d"}),
        (
            filters(MetadataFilter(key="kind", value="a"), MetadataFilter(key="number", value=3), condition="or"),
            {"a", "d"},
        ),
        (filters(MetadataFilter(key="kind", value="a"), filters(MetadataFilter(key="number", value=0))), {"a"}),
        (filters(MetadataFilter(key="kind", value="a", operator=FilterOperator.NE)), {"b", "c", "d"}),
    ],
)
def test_filters_narrow_the_search(
    vectors: RagstoreLlamaVectorStore, chosen: MetadataFilters, expected: set[str]
) -> None:
    assert set(ids(vectors, filters=chosen)) == expected
    assert {each.node_id for each in vectors.get_nodes(filters=chosen)} == expected


def test_ids_of_nodes_and_documents_narrow_the_search(vectors: RagstoreLlamaVectorStore) -> None:
    assert set(ids(vectors, node_ids=["b", "c"])) == {"b", "c"}
    assert set(ids(vectors, doc_ids=["cats"])) == {"a", "b"}


def test_mmr_prefers_unlike_nodes(vectors: RagstoreLlamaVectorStore) -> None:
    assert ids(vectors, top_k=2) == ["a", "b"]
    unlike = ids(vectors, top_k=2, mode=VectorStoreQueryMode.MMR, mmr_threshold=0.0)
    assert unlike[0] == "a"
    assert unlike[1] in ("c", "d")


def test_nodes_are_deleted_by_document_by_id_and_all(vectors: RagstoreLlamaVectorStore) -> None:
    vectors.delete("cats")
    assert {each.node_id for each in vectors.get_nodes()} == {"c", "d"}
    vectors.delete_nodes(["c"])
    assert [each.node_id for each in vectors.get_nodes(["c", "d"])] == ["d"]
    vectors.clear()
    assert vectors.get_nodes() == []


@pytest.mark.parametrize(
    "query",
    [
        VectorStoreQuery(query_str="cats"),
        VectorStoreQuery([1.0], mode=VectorStoreQueryMode.HYBRID),
        VectorStoreQuery([1.0], filters=filters(MetadataFilter(key="a", value="b"), condition="not")),
        VectorStoreQuery(
            [1.0], filters=filters(MetadataFilter(key="a", value="b", operator=FilterOperator.TEXT_MATCH))
        ),
    ],
)
def test_a_query_that_is_not_supported_says_so(vectors: RagstoreLlamaVectorStore, query: VectorStoreQuery) -> None:
    with pytest.raises(InvalidInput):
        vectors.query(query)


async def test_an_index_of_llamaindex_works_over_it(vectors: RagstoreLlamaVectorStore) -> None:
    embedding = WordEmbedding()
    index = VectorStoreIndex(
        [TextNode(id_="e", text="Birds sing.")],
        storage_context=StorageContext.from_defaults(vector_store=vectors),
        embed_model=embedding,
    )
    retriever = index.as_retriever(similarity_top_k=1)
    assert [found.node_id for found in retriever.retrieve("Birds sing.")] == ["e"]
    assert [found.node_id for found in await retriever.aretrieve("Dogs bark.")] == ["c"]
