"""From a question to what a model receives, and back to what the model cited.

Each step is a function that can be used alone:

    above_threshold, deduplicate                   drop passages
    by_similarity, maximal_marginal_relevance      order them
    TeiReranker, CohereReranker                    order them with a model
    select                                         keep those that fit a `Budget` of tokens
    STYLES: Sections, Numbered, Headings, Archives format them, as text or as chat messages
    check_citations, CitationStream                find the citations of a reply, and the invented ones
"""

from ragstore_client.context._citation_report import (
    CitationReport,
    HasPassages,
    check_citations,
    report_of,
    without_invented,
)
from ragstore_client.context._citation_stream import Citation, CitationStream, Segment
from ragstore_client.context._citations import Names, citation_of, source_of
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
from ragstore_client.context._rerank import CohereReranker, Reranker, TeiReranker
from ragstore_client.context._select import Budget, select
from ragstore_client.context._threshold import SIMILARITY_THRESHOLD, above_threshold
from ragstore_client.context._tokens import TokenCounter, estimate_tokens, tiktoken_counter, tokenizers_counter

__all__ = [
    "SIMILARITY_THRESHOLD",
    "STYLES",
    "Archives",
    "Budget",
    "Citation",
    "CitationReport",
    "CitationStream",
    "CohereReranker",
    "ContextPassage",
    "HasPassages",
    "Headings",
    "Message",
    "MetadataValue",
    "Names",
    "Numbered",
    "Passage",
    "Reranker",
    "Sections",
    "Segment",
    "Style",
    "TeiReranker",
    "TokenCounter",
    "Vector",
    "above_threshold",
    "by_similarity",
    "check_citations",
    "citation_of",
    "deduplicate",
    "estimate_tokens",
    "maximal_marginal_relevance",
    "report_of",
    "select",
    "source_of",
    "tiktoken_counter",
    "to_relevance",
    "to_similarity",
    "tokenizers_counter",
    "without_invented",
]
