"""From a question to what a model receives, and back to what the model cited.

    AsyncContextBuilder, ContextBuilder            a question to a `ChatContext`, within a time limit
    ContextSettings, Scope, session_scopes         limits, and which passages may be used
    TopicTracker                                   what a follow-up question is about
    ClientSource, ArchiveSource, PassageSource     what is searched

Each step is a function that can be used alone:

    choose_query                                   the text to search for: the question, or the topic
    retrieve, retrieve_sync                        search scopes concurrently, within a time limit
    above_threshold, deduplicate                   drop passages
    skips_context                                  whether a short question gets no context
    by_similarity, maximal_marginal_relevance      order them
    TeiReranker, CohereReranker                    order them with a model
    select                                         keep passages that fit a `Budget` of tokens
    STYLES: Sections, Numbered, Headings, Archives format them, as text or as chat messages
    check_citations, CitationStream                find the citations of a reply, and the invented ones

Modules are loaded on first use, so that one step does not load the others.
"""

from typing import TYPE_CHECKING

from ragstore_client._lazy import lazy_names

if TYPE_CHECKING:
    from ragstore_client.context._archive_source import ArchiveSource
    from ragstore_client.context._builder import AsyncContextBuilder
    from ragstore_client.context._cache import ContextCache
    from ragstore_client.context._citation_report import (
        CitationReport,
        HasPassages,
        check_citations,
        report_of,
        without_invented,
    )
    from ragstore_client.context._citation_stream import Citation, CitationStream, Segment
    from ragstore_client.context._citations import Names, citation_of, source_of
    from ragstore_client.context._client_source import ClientSource
    from ragstore_client.context._context import ChatContext, Reason, Timings
    from ragstore_client.context._deduplicate import deduplicate
    from ragstore_client.context._formats import STYLES, Archives, Headings, Numbered, Sections, Style
    from ragstore_client.context._messages import Message
    from ragstore_client.context._order import by_similarity, maximal_marginal_relevance
    from ragstore_client.context._passages import (
        ContextPassage,
        MetadataValue,
        Passage,
        Vector,
        to_relevance,
        to_similarity,
    )
    from ragstore_client.context._query import TopicTracker
    from ragstore_client.context._rerank import CohereReranker, Reranker, RerankFunction, TeiReranker
    from ragstore_client.context._retrieve import Retrieval, StepFailure, retrieve, retrieve_sync
    from ragstore_client.context._scopes import Scope, session_scopes
    from ragstore_client.context._select import Budget, select
    from ragstore_client.context._settings import ContextSettings
    from ragstore_client.context._sources import PartialSearch, PassageSource, ScopedSource
    from ragstore_client.context._sync_builder import ContextBuilder
    from ragstore_client.context._threshold import SIMILARITY_THRESHOLD, above_threshold, skips_context
    from ragstore_client.context._tokens import TokenCounter, estimate_tokens, tiktoken_counter, tokenizers_counter
    from ragstore_client.rag._strategy import choose_query

__all__ = [
    "SIMILARITY_THRESHOLD",
    "STYLES",
    "ArchiveSource",
    "Archives",
    "AsyncContextBuilder",
    "Budget",
    "ChatContext",
    "Citation",
    "CitationReport",
    "CitationStream",
    "ClientSource",
    "CohereReranker",
    "ContextBuilder",
    "ContextCache",
    "ContextPassage",
    "ContextSettings",
    "HasPassages",
    "Headings",
    "Message",
    "MetadataValue",
    "Names",
    "Numbered",
    "PartialSearch",
    "Passage",
    "PassageSource",
    "Reason",
    "RerankFunction",
    "Reranker",
    "Retrieval",
    "Scope",
    "ScopedSource",
    "Sections",
    "Segment",
    "StepFailure",
    "Style",
    "TeiReranker",
    "Timings",
    "TokenCounter",
    "TopicTracker",
    "Vector",
    "above_threshold",
    "by_similarity",
    "check_citations",
    "choose_query",
    "citation_of",
    "deduplicate",
    "estimate_tokens",
    "maximal_marginal_relevance",
    "report_of",
    "retrieve",
    "retrieve_sync",
    "select",
    "session_scopes",
    "skips_context",
    "source_of",
    "tiktoken_counter",
    "to_relevance",
    "to_similarity",
    "tokenizers_counter",
    "without_invented",
]


if not TYPE_CHECKING:  # with it, a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "ragstore_client.context._archive_source": "ArchiveSource",
            "ragstore_client.context._builder": "AsyncContextBuilder",
            "ragstore_client.context._sync_builder": "ContextBuilder",
            "ragstore_client.context._cache": "ContextCache",
            "ragstore_client.context._citation_report": (
                "CitationReport HasPassages check_citations report_of without_invented"
            ),
            "ragstore_client.context._citation_stream": "Citation CitationStream Segment",
            "ragstore_client.context._citations": "Names citation_of source_of",
            "ragstore_client.context._client_source": "ClientSource",
            "ragstore_client.context._context": "ChatContext Reason Timings",
            "ragstore_client.context._deduplicate": "deduplicate",
            "ragstore_client.context._formats": "STYLES Archives Headings Numbered Sections Style",
            "ragstore_client.context._messages": "Message",
            "ragstore_client.context._order": "by_similarity maximal_marginal_relevance",
            "ragstore_client.context._passages": (
                "ContextPassage MetadataValue Passage Vector to_relevance to_similarity"
            ),
            "ragstore_client.context._query": "TopicTracker",
            "ragstore_client.context._rerank": "CohereReranker RerankFunction Reranker TeiReranker",
            "ragstore_client.context._retrieve": "Retrieval StepFailure retrieve retrieve_sync",
            "ragstore_client.context._scopes": "Scope session_scopes",
            "ragstore_client.context._select": "Budget select",
            "ragstore_client.context._settings": "ContextSettings",
            "ragstore_client.context._sources": "PartialSearch PassageSource ScopedSource",
            "ragstore_client.context._threshold": "SIMILARITY_THRESHOLD above_threshold skips_context",
            "ragstore_client.context._tokens": "TokenCounter estimate_tokens tiktoken_counter tokenizers_counter",
            "ragstore_client.rag._strategy": "choose_query",
        },
    )
