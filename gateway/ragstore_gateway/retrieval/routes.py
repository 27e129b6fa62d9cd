"""A search of one knowledge base, and the passages that it finds, by their ids."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final

from litestar import MediaType, Request, get, post
from litestar.di import NamedDependency
from litestar.params import PathParameter, SkipValidation
from litestar.types import ControllerRouterHandler
from msgspec import UNSET, Meta, Struct, UnsetType

from ragstore.filters import where as language
from ragstore.kit.auth.roles import READS
from ragstore.kit.openapi import ERRORS
from ragstore.kit.schema_marks import schema
from ragstore_gateway.api.bodies import decode_configuration
from ragstore_gateway.api.openapi import body_of
from ragstore_gateway.configurations.configurations import Configurations
from ragstore_gateway.configurations.knowledge_base import KnowledgeBase, MaxResults, MinScore
from ragstore_gateway.configurations.where_template import variables_of
from ragstore_gateway.embeddings.schemas import NOT_BLANK
from ragstore_gateway.errors import (
    ConfigurationNotFound,
    DatabaseUnavailable,
    DimensionMismatch,
    EmbeddingFailed,
    EmbeddingRateLimited,
    EmbeddingTimeout,
    ModelUnavailable,
    PassageNotFound,
    RetrievalFailed,
    SecretUnavailable,
    StoreUnavailable,
)
from ragstore_gateway.keys import READER
from ragstore_gateway.retrieval.question import Question
from ragstore_gateway.retrieval.retriever import BaseQuery, KnowledgeRetriever
from ragstore_gateway.retrieval.source_names import SourceName
from ragstore_gateway.settings import Settings

BasesDependency = SkipValidation[NamedDependency[Configurations[KnowledgeBase]]]
RetrieverDependency = SkipValidation[NamedDependency[KnowledgeRetriever]]
SettingsDependency = SkipValidation[NamedDependency[Settings]]

QUERY_ERRORS = (
    ConfigurationNotFound,
    DatabaseUnavailable,
    DimensionMismatch,
    EmbeddingFailed,
    EmbeddingRateLimited,
    EmbeddingTimeout,
    ModelUnavailable,
    RetrievalFailed,
    SecretUnavailable,
    StoreUnavailable,
)

PASSAGE_ERRORS = (
    ConfigurationNotFound,
    PassageNotFound,
    DatabaseUnavailable,
    ModelUnavailable,
    SecretUnavailable,
    StoreUnavailable,
)


class KnowledgeBaseQuery(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A question to a knowledge base."""

    query: Annotated[str, Meta(min_length=1, max_length=32_768, pattern=NOT_BLANK, description="The question.")]
    earlier: Annotated[
        list[Annotated[str, Meta(max_length=32_768)]],
        Meta(max_length=100, description="Earlier messages of the user, the oldest one first, if it is a follow-up."),
    ] = []
    max_results: MaxResults | UnsetType = UNSET
    min_score: MinScore | UnsetType = UNSET
    where: Annotated[dict[str, Any], schema("Where"), Meta(description="Filter by the metadata of chunks.")] = {}


class KnowledgeBaseHit(Struct, frozen=True, rename="camel"):
    """A passage that was found."""

    id: Annotated[str, Meta(description="Id of the chunk.")]
    text: Annotated[str, Meta(description="Its text.")]
    score: Annotated[float, Meta(ge=0, le=1, description="Its relevance, (1 + cosine) / 2.")]
    metadata: Annotated[dict[str, str | int | float | bool], Meta(description="Its metadata.")]


class KnowledgeBaseHits(Struct, frozen=True):
    """The passages that were found, the best one first."""

    results: list[KnowledgeBaseHit]


@post(
    "/ragstore/rags/{id:str}/query",
    status_code=200,
    opt={**READER, **READS, ERRORS: QUERY_ERRORS, **body_of(KnowledgeBaseQuery)},
    operation_id="queryKnowledgeBase",
    summary="Search a knowledge base",
    tags=["knowledge bases"],
)
async def query_knowledge_base(
    request: Request[Any, Any, Any],
    id: Annotated[str, PathParameter(description="Id of the knowledge base.")],
    knowledge_bases: BasesDependency,
    retriever: RetrieverDependency,
    settings: SettingsDependency,
) -> KnowledgeBaseHits:
    """The passages that fit a question best, by its vector and its words.

    `maxResults` and `minScore` are the base's own by default. `where` narrows the base's own filter, whose variables
    have the values of this request.
    """
    data = decode_configuration(KnowledgeBaseQuery, await request.body())
    language.parse(data.where)  # also if the base is empty, and before the question is embedded
    with retriever.priority.search():
        base = await knowledge_bases.read(id)
        query = BaseQuery.of(
            base,
            base.body.max_results if data.max_results is UNSET else data.max_results,
            base.body.min_score if data.min_score is UNSET else data.min_score,
            variables_of(request.scope, settings.session_from),
            where=data.where or None,
        )
        deadline = asyncio.get_running_loop().time() + settings.rag_timeout_seconds
        result = (await retriever.search(Question(data.query, data.earlier), [query], deadline))[0]
    if result.failure is not None:
        raise result.failure
    if result.error:
        raise RetrievalFailed(f"The knowledge base was not searched: {result.error}")
    return KnowledgeBaseHits(
        [
            KnowledgeBaseHit(passage.id, passage.text, passage.relevance, dict(passage.metadata))
            for passage in result.passages
        ]
    )


@get(
    "/ragstore/rags/{id:str}/passages/{passage_id:str}",
    media_type=MediaType.TEXT,
    opt={**READER, ERRORS: PASSAGE_ERRORS},
    operation_id="readPassage",
    summary="Read a passage",
    tags=["knowledge bases"],
)
async def read_passage(
    id: Annotated[str, PathParameter(description="Id of the knowledge base.")],
    passage_id: Annotated[str, PathParameter(description="Id of the passage.")],
    knowledge_bases: BasesDependency,
    retriever: RetrieverDependency,
) -> str:
    """The document of a passage, its page or heading, and its text, as a browser shows it.

    Citations of documents without an address of their own have this address. A passage has gone, 404, when its document
    is deleted, replaced or indexed again.
    """
    base = await knowledge_bases.read(id)
    passage = await retriever.passage(base, passage_id)
    if passage is None:
        raise PassageNotFound("There is no such passage any more")
    return f"{SourceName.of(passage.metadata, passage.base).title}\n\n{passage.text}"


ROUTES: Final[list[ControllerRouterHandler]] = [query_knowledge_base, read_passage]
"""The routes of searches."""
