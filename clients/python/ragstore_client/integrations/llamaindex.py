"""ragstore for LlamaIndex: a vector store over a collection, and a retriever over a knowledge base.

Needs the extra `llamaindex`, and numpy for queries by maximal marginal relevance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from ragstore_client._exceptions import InvalidConfiguration, InvalidInput
from ragstore_client._models import JSON, Document, Match, Where
from ragstore_client._sync.client import Client
from ragstore_client.gateway import AsyncGatewayClient, GatewayClient, KnowledgeBaseHit

__all__ = ["GatewayLlamaRetriever", "RagstoreLlamaVectorStore"]

_NODE_ID = "_node_id"
_FIRST_CANDIDATES = 4
_MAX_MATCHES = 1000

_OPERATORS = {
    FilterOperator.EQ: "$eq",
    FilterOperator.NE: "$ne",
    FilterOperator.GT: "$gt",
    FilterOperator.GTE: "$gte",
    FilterOperator.LT: "$lt",
    FilterOperator.LTE: "$lte",
    FilterOperator.IN: "$in",
    FilterOperator.NIN: "$nin",
    FilterOperator.CONTAINS: "$contains",
}


class RagstoreLlamaVectorStore(BasePydanticVectorStore):
    """A collection of a ragstore service. The asynchronous methods call the synchronous ones.

    Args:
        client: a client of the service; the caller closes it.
        collection: name of the collection, which is created if it does not exist.
    """

    stores_text: bool = True
    flat_metadata: bool = True
    _client: Client = PrivateAttr()
    _collection: str = PrivateAttr()

    def __init__(self, client: Client, collection: str) -> None:
        super().__init__(stores_text=True)
        self._client = client
        self._collection = collection
        client.create_collection(collection, get_or_create=True)

    @classmethod
    def class_name(cls) -> str:
        """Name of the class, for LlamaIndex."""
        return "RagstoreLlamaVectorStore"

    @property
    def client(self) -> Client:
        """The client."""
        return self._client

    def add(self, nodes: Sequence[BaseNode], **_: object) -> list[str]:
        """Store nodes with their embeddings. A node with the id of a stored node replaces it.

        Returns:
            The ids.

        Raises:
            IngestionFailed: a node was rejected; the others are stored.
        """
        documents = [
            {
                "id": node.node_id,
                "text": node.get_content(MetadataMode.NONE),
                "embedding": node.get_embedding(),
                "metadata": node_to_metadata_dict(node, remove_text=True, flat_metadata=True)
                | {_NODE_ID: node.node_id},
            }
            for node in nodes
        ]
        self._client.ingest_all(self._collection, documents).raise_for_failures()
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **_: object) -> None:
        """Delete the nodes of a document."""
        self._client.delete_documents(self._collection, where={"ref_doc_id": ref_doc_id})

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **_: object
    ) -> None:
        """Delete nodes by id, by a filter, or by both."""
        self._client.delete_documents(self._collection, ids=node_ids, where=_to_where(filters))

    def clear(self) -> None:
        """Delete all nodes."""
        self._client.empty_collection(self._collection)

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Get nodes by id, by a filter, or by both. Unknown ids are left out."""
        found = self._client.iter_documents(
            self._collection, ids=node_ids, where=_to_where(filters), include_embeddings=True
        )
        return [_to_node(document) for document in found]

    def query(self, query: VectorStoreQuery, **_: object) -> VectorStoreQueryResult:
        """Find the nodes nearest to the query's embedding.

        Args:
            query: with an embedding; the modes `default` and `mmr`.

        Raises:
            InvalidInput: there is no embedding, or the mode or a filter is not supported.
        """
        if query.query_embedding is None:
            raise InvalidInput("the service searches vectors: the query needs an embedding")
        if query.mode not in (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR):
            raise InvalidInput(f"the mode {query.mode.value!r} is not supported; use default or mmr")
        clauses: list[Where | None] = [
            _to_where(query.filters),
            {"doc_id": {"$in": query.doc_ids}} if query.doc_ids else None,
            {_NODE_ID: {"$in": query.node_ids}} if query.node_ids else None,
        ]
        where = _combined("$and", [clause for clause in clauses if clause])
        is_mmr = query.mode == VectorStoreQueryMode.MMR
        top_k = query.similarity_top_k * (_FIRST_CANDIDATES if is_mmr else 1)
        matches = self._client.query(
            self._collection,
            query.query_embedding,
            top_k=min(top_k, _MAX_MATCHES),
            where=where,
            include_embeddings=is_mmr,
        ).results
        if is_mmr:
            matches = _diverse(matches, query)
        return VectorStoreQueryResult(
            nodes=[_to_node(match) for match in matches],
            similarities=[match.score for match in matches],
            ids=[match.id for match in matches],
        )


class GatewayLlamaRetriever(BaseRetriever):
    """A retriever over a knowledge base of a gateway, with the base's own ranking.

    The score of a node is the relevance of its passage, 0 to 1. Its metadata is the passage's, with `source` (document,
    page and heading) added.

    Args:
        client: a client of the gateway; the caller closes it. `retrieve` needs a `GatewayClient`; `aretrieve`
            works with either.
        base: id of the knowledge base.
        similarity_top_k: maximum number of nodes; the base's own when None.
        min_score: minimum relevance, 0 to 1; the base's own when None.
        where: a filter by metadata.
    """

    def __init__(
        self,
        client: GatewayClient | AsyncGatewayClient,
        base: str,
        *,
        similarity_top_k: int | None = None,
        min_score: float | None = None,
        where: Where | None = None,
    ) -> None:
        super().__init__()
        self._client = client
        self._base = base
        self._max_results = similarity_top_k
        self._min_score = min_score
        self._where = where

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if isinstance(self._client, AsyncGatewayClient):
            raise InvalidConfiguration("retrieve needs a GatewayClient; aretrieve works with either")
        hits = self._client.search(
            self._base,
            query_bundle.query_str,
            max_results=self._max_results,
            min_score=self._min_score,
            where=self._where,
        )
        return [_node_of(hit) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if isinstance(self._client, GatewayClient):
            return await asyncio.to_thread(self._retrieve, query_bundle)
        hits = await self._client.search(
            self._base,
            query_bundle.query_str,
            max_results=self._max_results,
            min_score=self._min_score,
            where=self._where,
        )
        return [_node_of(hit) for hit in hits]


def _node_of(hit: KnowledgeBaseHit) -> NodeWithScore:
    node = TextNode(id_=hit.id, text=hit.text, metadata={**hit.metadata, "source": hit.source})
    return NodeWithScore(node=node, score=hit.score)


def _diverse(matches: list[Match], query: VectorStoreQuery) -> list[Match]:
    from ragstore_client.context._order import maximal_marginal_relevance
    from ragstore_client.context._passages import Passage

    by_id = {match.id: match for match in matches}
    candidates = [Passage(id=match.id, text="", embedding=match.embedding) for match in matches]
    diversity = 0.5 if query.mmr_threshold is None else 1.0 - query.mmr_threshold
    chosen = maximal_marginal_relevance(
        query.query_embedding or [], candidates, k=query.similarity_top_k, diversity=diversity
    )
    return [by_id[passage.id] for passage in chosen]


def _to_node(document: Document | Match) -> BaseNode:
    node = metadata_dict_to_node(dict(document.metadata), text=document.text)
    node.embedding = document.embedding
    return node


def _to_where(filters: MetadataFilters | None) -> Where | None:
    """LlamaIndex's filters in the contract's language."""
    if filters is None or not filters.filters:
        return None
    if filters.condition == FilterCondition.NOT:
        raise InvalidInput("filters with the condition 'not' are not supported")
    operator = "$or" if filters.condition == FilterCondition.OR else "$and"
    nested = [_to_where(each) if isinstance(each, MetadataFilters) else _clause(each) for each in filters.filters]
    return _combined(operator, [clause for clause in nested if clause])


def _clause(each: MetadataFilter) -> Where:
    if each.operator in _OPERATORS:
        return {each.key: {_OPERATORS[each.operator]: each.value}}
    if each.operator in (FilterOperator.ANY, FilterOperator.ALL) and isinstance(each.value, list):
        members: list[Where] = [{each.key: {"$contains": value}} for value in each.value]
        return _combined("$or" if each.operator == FilterOperator.ANY else "$and", members) or {}
    raise InvalidInput(f"the operator {each.operator.value!r} of a filter is not supported")


def _combined(operator: str, clauses: list[Where]) -> Where | None:
    if len(clauses) > 1:
        several: list[JSON] = list(clauses)
        return {operator: several}
    return clauses[0] if clauses else None
