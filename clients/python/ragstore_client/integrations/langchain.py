"""ragstore for LangChain: a vector store over a collection, and retrievers over contexts and knowledge bases.

Needs the extra `langchain`; nothing else of the package imports this module.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict

from ragstore_client._exceptions import InvalidConfiguration
from ragstore_client._models import Match, Metadata, NewDocument, Where
from ragstore_client._sync.client import Client
from ragstore_client.context._builder import AsyncContextBuilder
from ragstore_client.context._context import ChatContext
from ragstore_client.context._order import maximal_marginal_relevance
from ragstore_client.context._passages import Passage, to_relevance
from ragstore_client.context._settings import ContextSettings
from ragstore_client.context._sync_builder import ContextBuilder
from ragstore_client.gateway import AsyncGatewayClient, GatewayClient, KnowledgeBaseHit

__all__ = ["GatewayRetriever", "RagstoreContextRetriever", "RagstoreVectorStore"]

Store = TypeVar("Store", bound="RagstoreVectorStore")


class RagstoreVectorStore(VectorStore):
    """A collection of a ragstore service. The asynchronous methods run the synchronous ones in a thread.

    Args:
        client: a client of the service; the caller closes it.
        collection: name of the collection, which is created if it does not exist.
        embedding: embeds texts and queries.
    """

    def __init__(self, client: Client, collection: str, embedding: Embeddings) -> None:
        self._client = client
        self._collection = collection
        self._embedding = embedding
        client.create_collection(collection, get_or_create=True)

    @property
    def embeddings(self) -> Embeddings:
        """The embedding model."""
        return self._embedding

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, object]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **_: object,
    ) -> list[str]:
        """Store texts. A text with the id of a stored text replaces it.

        Args:
            metadatas: metadata of each text: strings, numbers, booleans, lists of these; a null is left out.
            ids: an id for each text, or None for a new one.

        Returns:
            The ids.
        """
        given = list(texts)
        names = [name or str(uuid.uuid4()) for name in (ids or [None] * len(given))]
        vectors = self._embedding.embed_documents(given)
        columns = zip(given, vectors, names, metadatas or [{}] * len(given), strict=True)
        documents = [
            NewDocument(text=text, embedding=vector, id=name, metadata=_to_metadata(metadata))
            for text, vector, name, metadata in columns
        ]
        for outcome in self._client.ingest(self._collection, documents):
            if outcome.error is not None:
                raise outcome.error
        return names

    def delete(self, ids: list[str] | None = None, **_: object) -> bool:
        """Delete texts by id. Unknown ids are ignored.

        Args:
            ids: the ids; all texts of the collection when None.

        Returns:
            True.
        """
        if ids is None:
            self._client.empty_collection(self._collection)
        elif ids:
            self._client.delete_documents(self._collection, ids=ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Get texts by id. Unknown ids are left out."""
        if not ids:
            return []
        stored = self._client.iter_documents(self._collection, ids=list(ids))
        return [Document(id=each.id, page_content=each.text, metadata=dict(each.metadata)) for each in stored]

    def similarity_search(self, query: str, k: int = 4, *, filter: Where | None = None, **_: object) -> list[Document]:
        """Find the texts nearest to a query.

        Args:
            k: maximum number of texts.
            filter: a filter on metadata, in the contract's language.
        """
        return [document for document, _ in self.similarity_search_with_score(query, k, filter=filter)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Where | None = None, **_: object
    ) -> list[tuple[Document, float]]:
        """Find the texts nearest to a query, with their scores: cosine similarities, higher is nearer."""
        matches = self._search(self._embedding.embed_query(query), k, filter)
        return [(_to_document(match), 0.0 if math.isnan(match.score) else match.score) for match in matches]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Where | None = None, **_: object
    ) -> list[Document]:
        """Find the texts nearest to a vector."""
        return [_to_document(match) for match in self._search(embedding, k, filter)]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Where | None = None,
        **_: object,
    ) -> list[Document]:
        """Find texts that are near a query and unlike each other. `lambda_mult` is 1 - `diversity`: 1 is similarity."""
        embedding = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(embedding, k, fetch_k, lambda_mult, filter=filter)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Where | None = None,
        **_: object,
    ) -> list[Document]:
        """Find texts that are near a vector and unlike each other. See `max_marginal_relevance_search`."""
        matches = {match.id: match for match in self._search(embedding, fetch_k, filter, include_embeddings=True)}
        candidates = [Passage(id=match.id, text=match.text, embedding=match.embedding) for match in matches.values()]
        chosen = maximal_marginal_relevance(embedding, candidates, k=k, diversity=1.0 - lambda_mult)
        return [_to_document(matches[passage.id]) for passage in chosen]

    @classmethod
    def from_texts(
        cls: type[Store],
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, object]] | None = None,
        *,
        ids: list[str] | None = None,
        client: Client | None = None,
        collection: str = "",
        **_: object,
    ) -> Store:
        """Make a store with texts.

        Args:
            embedding: embeds texts and queries.
            metadatas: metadata of each text.
            ids: ids of the texts.
            client: a client of the service.
            collection: name of the collection.

        Raises:
            InvalidConfiguration: there is no client, or no collection.
        """
        if client is None or not collection:
            raise InvalidConfiguration("from_texts needs client= and collection=")
        store = cls(client, collection, embedding)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, *, filter: Where | None = None, **_: object
    ) -> list[tuple[Document, float]]:
        found = self.similarity_search_with_score(query, k, filter=filter)
        return [(document, to_relevance(score) or 0.0) for document, score in found]

    def _search(
        self, embedding: list[float], k: int, where: Where | None, *, include_embeddings: bool = False
    ) -> list[Match]:
        found = self._client.query(
            self._collection, embedding, top_k=k, where=where, include_embeddings=include_embeddings
        )
        return found.results


class RagstoreContextRetriever(BaseRetriever):
    """A retriever over a builder of contexts: within its limits, and without exceptions for a failed search.

    The documents have the metadata of the passages, with `citation` and `similarity` added.

    Attributes:
        k: maximum number of documents; the maximum in the builder's settings when None.
        session_id: the session.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    builder: ContextBuilder | AsyncContextBuilder
    k: int | None = None
    session_id: str | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        if isinstance(self.builder, AsyncContextBuilder):
            raise InvalidConfiguration("invoke needs a ContextBuilder; ainvoke works with either")
        return _to_documents(self._context(self.builder, query, k))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        if isinstance(self.builder, ContextBuilder):
            return _to_documents(await asyncio.to_thread(self._context, self.builder, query, k))
        context = await self.builder.build(query, session_id=self.session_id, settings=self._settings(k))
        return _to_documents(context)

    def _context(self, builder: ContextBuilder, query: str, k: int | None) -> ChatContext:
        return builder.build(query, session_id=self.session_id, settings=self._settings(k))

    def _settings(self, k: int | None) -> ContextSettings:
        wanted = self.k if k is None else k
        return self.builder.settings if wanted is None else self.builder.settings.override(top_k_max=wanted)


class GatewayRetriever(BaseRetriever):
    """A retriever over a knowledge base of a gateway, with the base's own ranking.

    The documents have the metadata of the passages, with `source` (document, page and heading) and `score` (the
    relevance, 0 to 1) added. Errors are the errors of the client.

    Attributes:
        client: a client of the gateway; the caller closes it. `invoke` needs a `GatewayClient`; `ainvoke` works with
            either.
        base: id of the knowledge base.
        k: maximum number of documents; the base's own when None.
        min_score: minimum relevance, 0 to 1; the base's own when None.
        where: a filter by metadata.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: GatewayClient | AsyncGatewayClient
    base: str
    k: int | None = None
    min_score: float | None = None
    where: Where | None = None

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return self._documents(query, k)

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        if isinstance(self.client, GatewayClient):
            return await asyncio.to_thread(self._documents, query, k)
        wanted = self.k if k is None else k
        hits = await self.client.search(
            self.base, query, max_results=wanted, min_score=self.min_score, where=self.where
        )
        return [_of_hit(hit) for hit in hits]

    def _documents(self, query: str, k: int | None) -> list[Document]:
        if isinstance(self.client, AsyncGatewayClient):
            raise InvalidConfiguration("invoke needs a GatewayClient; ainvoke works with either")
        wanted = self.k if k is None else k
        hits = self.client.search(self.base, query, max_results=wanted, min_score=self.min_score, where=self.where)
        return [_of_hit(hit) for hit in hits]


def _of_hit(hit: KnowledgeBaseHit) -> Document:
    return Document(
        id=hit.id, page_content=hit.text, metadata={**hit.metadata, "source": hit.source, "score": hit.score}
    )


def _to_metadata(metadata: dict[str, object]) -> Metadata:
    return cast("Metadata", metadata)  # checked when it is encoded


def _to_document(match: Match) -> Document:
    return Document(id=match.id, page_content=match.text, metadata=dict(match.metadata))


def _to_documents(context: ChatContext) -> list[Document]:
    return [
        Document(
            id=passage.id,
            page_content=passage.text,
            metadata={**passage.metadata, "citation": passage.citation, "similarity": passage.similarity},
        )
        for passage in context.passages
    ]
