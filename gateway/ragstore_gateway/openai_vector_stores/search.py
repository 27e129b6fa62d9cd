"""`StoreSearch`: searches of vector stores."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Final

import sqlalchemy as sa

from ragstore.filters import where as language
from ragstore.kit.errors import InvalidRequest
from ragstore_client import Where
from ragstore_gateway.api.request_variables import RequestVariables
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase
from ragstore_gateway.database.database import Database
from ragstore_gateway.embeddings.schemas import NOT_BLANK
from ragstore_gateway.engines.engine_collection import DOCUMENT_KEY, MetadataValue, Passage
from ragstore_gateway.errors import RetrievalFailed
from ragstore_gateway.ingestion.tables import DocumentRow
from ragstore_gateway.openai_vector_stores.attribute_filters import parse_filter
from ragstore_gateway.openai_vector_stores.properties import check_not_expired
from ragstore_gateway.openai_vector_stores.schemas import (
    MAX_PAIRS,
    TextContent,
    VectorStoreSearch,
    VectorStoreSearchPage,
    VectorStoreSearchResult,
)
from ragstore_gateway.openai_vector_stores.tables import VectorStoreFileRow
from ragstore_gateway.retrieval.question import Question
from ragstore_gateway.retrieval.retriever import BaseQuery, KnowledgeRetriever

PLACE: Final = ("page_number", "page_end", "section_heading")
"""Metadata of a passage that a result has as attributes, unless its file has attributes of these names."""
DEFAULT_RESULTS: Final = 10
MAX_IDS: Final = 2000
"""Maximum number of documents in the filter of one search. More are searched with several."""

_not_blank: Final = re.compile(NOT_BLANK).search


class StoreSearch:
    """Searches vector stores.

    Args:
        bases: the knowledge bases.
        retriever: searches knowledge bases.
        timeout_seconds: time limit of a search.
    """

    def __init__(
        self,
        database: Database,
        bases: Configurations[KnowledgeBase],
        retriever: KnowledgeRetriever,
        timeout_seconds: float,
    ) -> None:
        self._database = database
        self._bases = bases
        self._retriever = retriever
        self._timeout_seconds = timeout_seconds

    async def search(self, base_id: str, body: VectorStoreSearch, variables: RequestVariables) -> VectorStoreSearchPage:
        """Search a vector store, within the filter of the base.

        Args:
            body: the search.
            variables: the variables of the request.

        Raises:
            ConfigurationNotFound: there is no such vector store.
            InvalidRequest: the query is blank, the filter is not valid, or the vector store has expired.
            RetrievalFailed: the search did not complete in time.
            ServiceError: the store or the provider of embeddings failed.
        """
        questions = _questions(body.query)
        filter_ = parse_filter(body.filters) if body.filters else None
        base = await self._bases.read(base_id)
        async with self._database.reading() as session:
            await check_not_expired(session, base_id)
        limit = body.max_num_results or DEFAULT_RESULTS
        threshold = None if body.ranking_options is None else body.ranking_options.score_threshold
        min_score = base.body.min_score if threshold is None else threshold
        wheres = [None] if filter_ is None else await self._documents(base_id, filter_)
        queries = [BaseQuery.of(base, limit, min_score, variables, where=where) for where in wheres]
        passages = await self._passages(questions, queries)
        found = sorted(passages.values(), key=lambda passage: passage.place)[:limit]
        return VectorStoreSearchPage(questions, await self._results(found))

    async def _passages(self, questions: Sequence[str], queries: Sequence[BaseQuery]) -> Mapping[str, Passage]:
        """The passages of all questions by id, each with its best rank."""
        deadline = asyncio.get_running_loop().time() + self._timeout_seconds
        searches = (self._retriever.search(Question(question), queries, deadline) for question in questions)
        found: dict[str, Passage] = {}
        for results in await asyncio.gather(*searches):
            for result in results:
                if result.failure is not None:
                    raise result.failure
                if result.error:
                    timeout = result.error == "timeout"
                    raise RetrievalFailed(f"The search {'did not complete in time' if timeout else 'failed'}")
                for passage in result.passages:
                    if passage.id not in found or passage.rank > found[passage.id].rank:
                        found[passage.id] = passage
        return found

    async def _documents(self, base_id: str, filter_: language.Where) -> list[Where | None]:
        """Filters by the documents whose attributes match. Attributes may change without a new ingestion."""
        query = (
            sa.select(DocumentRow.id, VectorStoreFileRow.attributes, DocumentRow.own_metadata)
            .join(VectorStoreFileRow, VectorStoreFileRow.document_id == DocumentRow.id, isouter=True)
            .where(DocumentRow.base_id == base_id, DocumentRow.current_revision.is_not(None))
        )
        async with self._database.reading() as session:
            rows = [tuple(row) for row in await session.execute(query)]
        # In a thread: a filter may have 500 comparisons for each document.
        ids = await asyncio.to_thread(_matching, rows, filter_)
        if len(ids) == len(rows):
            return [None]
        starts = range(0, len(ids), MAX_IDS)
        return [{DOCUMENT_KEY: {"$in": list(ids[start : start + MAX_IDS])}} for start in starts]

    async def _results(self, passages: Sequence[Passage]) -> list[VectorStoreSearchResult]:
        ids = {str(passage.metadata[DOCUMENT_KEY]) for passage in passages}
        query = (
            sa.select(DocumentRow.id, DocumentRow.own_metadata, VectorStoreFileRow)
            .join(VectorStoreFileRow, VectorStoreFileRow.document_id == DocumentRow.id, isouter=True)
            .where(DocumentRow.id.in_(ids))
        )
        async with self._database.reading() as session:
            rows = {id: (metadata or {}, link) for id, metadata, link in await session.execute(query)}
        results = []
        for passage in passages:
            document_id = str(passage.metadata[DOCUMENT_KEY])
            metadata, link = rows.get(document_id, ({}, None))
            results.append(
                VectorStoreSearchResult(
                    file_id=document_id if link is None else link.file_id,
                    filename=str(passage.metadata.get("document_name", "")) if link is None else link.filename,
                    score=passage.relevance,
                    attributes=_attributes(passage, metadata if link is None else link.attributes),
                    content=[TextContent(passage.text)],
                )
            )
        return results


def _attributes(passage: Passage, own: Mapping[str, MetadataValue]) -> dict[str, MetadataValue]:
    """The attributes of a result, at most 16, as in OpenAI's API.

    Args:
        own: the attributes of the file. None is left out: the page and the heading take the room that is left.
    """
    attributes = dict(own)
    for name in PLACE:
        if len(attributes) < MAX_PAIRS and passage.metadata.get(name):
            attributes.setdefault(name, passage.metadata[name])
    return attributes


def _matching(
    rows: Sequence[tuple[str, Mapping[str, MetadataValue] | None, Mapping[str, MetadataValue] | None]],
    filter_: language.Where,
) -> list[str]:
    """The documents whose attributes match, or whose metadata do if they have none."""
    return [
        id
        for id, attributes, metadata in rows
        if language.matches(filter_, (metadata if attributes is None else attributes) or {})
    ]


def _questions(query: str | Sequence[str]) -> list[str]:
    """The queries of a search.

    Raises:
        InvalidRequest: the query is blank.
    """
    if not isinstance(query, str):
        return list(query)
    if not _not_blank(query):
        raise InvalidRequest.at("$.query", "Must not be blank")
    return [query]
