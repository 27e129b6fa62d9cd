"""The search tool of an agent, and what all invocations of a process share."""

from __future__ import annotations

import logging
import math
from typing import Annotated, TypedDict

from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from ragstore_client._exceptions import RagstoreError, describe
from ragstore_client._models import StoredMetadata
from ragstore_client.rag._config import MAX_TOP_K, RagConfig, RagSettings, clamp_top_k
from ragstore_client.rag._connections import LoopThread
from ragstore_client.rag._detection import BackendDetector
from ragstore_client.rag._embedder import Embedder
from ragstore_client.rag._embedding_cache import EmbeddingCache
from ragstore_client.rag._formatting import format_results, texts
from ragstore_client.rag._results import SearchResults
from ragstore_client.rag._retriever import Retriever

logger = logging.getLogger("ragstore_client.rag")

# A retriever lives for one invocation. These outlive it: all invocations of the process share them.
shared_cache = EmbeddingCache()
shared_detector = BackendDetector()
shared_loop_thread = LoopThread()

_DESCRIPTION = (
    "Searches the user's document archives. Use it whenever a question may be about documents, policies, "
    "reports, maintenance records or anything else that may have been archived."
)


class ArchiveHit(TypedDict):
    """A passage that the tool has found.

    Attributes:
        citation: its number in the text for the model, such as `[1]`.
        archive: the archive's display name.
        collection: the archive's collection.
        id: its id in the collection.
        score: its similarity to the query; None when unknown.
        distance: its distance from the query; None when unknown.
    """

    citation: str
    archive: str
    collection: str
    id: str
    text: str
    metadata: StoredMetadata
    score: float | None
    distance: float | None


class UnsearchedArchive(TypedDict):
    """An archive that could not be searched.

    Attributes:
        archive: its display name.
        reason: why, as a value of `SkipReason`.
    """

    archive: str
    collection: str
    reason: str


class SearchArtifact(TypedDict):
    """The findings of a call of the tool, for the program: the `artifact` of its message.

    Attributes:
        hits: the passages, nearest first.
        not_searched: the archives that could not be searched.
    """

    hits: list[ArchiveHit]
    not_searched: list[UnsearchedArchive]


_NOTHING = SearchArtifact(hits=[], not_searched=[])


def create_archive_search_tool(
    rag_config: RagConfig,
    *,
    retriever: Retriever | None = None,
    embedder: Embedder | None = None,
    settings: RagSettings | None = None,
    language: str = "de",
) -> BaseTool:
    """Make the tool `search_archives` over the archives of an invocation.

    Args:
        rag_config: the archives.
        retriever: the retriever; one with this module's shared cache when None.
        embedder: embeds queries; the endpoint in `settings` when None.
        settings: time limits and defaults; the environment's when None.
        language: language of the texts that the tool returns.

    Returns:
        A tool for `invoke` and `ainvoke`, with the arguments `query` and `top_k`. It returns text, and a
        `SearchArtifact` as artifact. It never raises: wrong arguments are corrected, or the text says what is wrong.

    Raises:
        InvalidConfiguration: there are no texts in that language.
    """
    labels = texts(language)
    searcher = retriever or shared_retriever(rag_config, embedder, settings)
    layer = searcher.settings.default_layer

    def search_archives(query: str, top_k: int = searcher.settings.default_top_k) -> tuple[str, SearchArtifact]:
        if not query.strip():
            return labels.query_missing, _NOTHING
        try:
            return _response(searcher.search(query, clamp_top_k(top_k), layer=layer), language)
        except RagstoreError as error:
            logger.error("Archive search failed: %s", describe(error))
            return labels.search_failed, _NOTHING

    async def asearch_archives(query: str, top_k: int = searcher.settings.default_top_k) -> tuple[str, SearchArtifact]:
        if not query.strip():
            return labels.query_missing, _NOTHING
        try:
            return _response(await searcher.asearch(query, clamp_top_k(top_k), layer=layer), language)
        except RagstoreError as error:
            logger.error("Archive search failed: %s", describe(error))
            return labels.search_failed, _NOTHING

    return StructuredTool.from_function(
        func=search_archives,
        coroutine=asearch_archives,
        name="search_archives",
        description=_DESCRIPTION,
        args_schema=_arguments(searcher.settings.default_top_k),
        response_format="content_and_artifact",
        handle_validation_error=labels.query_missing,
    )


def shared_retriever(
    rag_config: RagConfig, embedder: Embedder | None = None, settings: RagSettings | None = None
) -> Retriever:
    """A retriever for one invocation, with what all invocations share."""
    return Retriever(
        rag_config,
        settings=settings or RagSettings.from_env(lenient=True),
        embedder=embedder,
        cache=shared_cache,
        detector=shared_detector,
        loop_thread=shared_loop_thread,
    )


def _response(results: SearchResults, language: str) -> tuple[str, SearchArtifact]:
    hits = [
        ArchiveHit(
            citation=f"[{number}]",
            archive=passage.archive.name,
            collection=passage.archive.collection_name,
            id=passage.id,
            text=passage.text,
            metadata=passage.metadata,
            score=passage.score,
            distance=passage.distance,
        )
        for number, passage in enumerate(results, 1)
    ]
    not_searched = [
        UnsearchedArchive(
            archive=skipped.archive.name, collection=skipped.archive.collection_name, reason=str(skipped.reason)
        )
        for skipped in results.skipped
    ]
    return format_results(results, language=language), SearchArtifact(hits=hits, not_searched=not_searched)


def _arguments(default_top_k: int) -> type[BaseModel]:
    """The arguments as models send them: a number may be a text, and anything else is ignored."""

    def to_top_k(value: object) -> int:
        try:
            number = float(value)  # type: ignore[arg-type]  # whatever a model has sent
        except (TypeError, ValueError):
            return default_top_k
        return clamp_top_k(int(number)) if math.isfinite(number) else default_top_k

    def to_query(value: object) -> str:
        if isinstance(value, list | tuple):
            return " ".join(map(str, value))
        return "" if value is None else str(value)

    query = Annotated[str, BeforeValidator(to_query), Field(description="The query, phrased for a semantic search.")]
    limit = Field(default=default_top_k, ge=1, le=MAX_TOP_K, description="Maximum number of passages to return.")
    return create_model(
        "search_archives",
        __config__=ConfigDict(extra="ignore"),
        query=(query, ...),
        top_k=(Annotated[int, BeforeValidator(to_top_k)], limit),
    )
