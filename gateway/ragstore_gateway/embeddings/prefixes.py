"""Prefixes by which models distinguish queries from documents, from the models' own cards.

They are text that the model was trained with, sent by the caller. Providers with a field for it (`input_type`,
`task_type`) do not use them.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ragstore_gateway.embeddings.embedder import Kind


class Prefixes(NamedTuple):
    """The texts that precede queries and documents.

    Attributes:
        query: precedes a query.
        document: precedes a document.
    """

    query: str = ""
    document: str = ""

    def applied(self, texts: list[str], kind: Kind) -> list[str]:
        """The texts with their prefix."""
        prefix = self.query if kind == "query" else self.document
        return [prefix + text for text in texts] if prefix else texts


_SEARCH: Final = "Represent this sentence for searching relevant passages: "

_KNOWN: Final = (
    # huggingface.co/nomic-ai/nomic-embed-text-v1.5
    (re.compile(r"(^|/)nomic-embed-text"), Prefixes("search_query: ", "search_document: ")),
    # huggingface.co/intfloat/multilingual-e5-large; its instruct variants and e5-mistral have prompts of another form
    (
        re.compile(r"(^|/)(multilingual-)?e5-(small|base|large)(-v2)?(:|$)"),
        Prefixes("query: ", "passage: "),
    ),
    # huggingface.co/mixedbread-ai/mxbai-embed-large-v1
    (re.compile(r"(^|/)mxbai-embed-large"), Prefixes(_SEARCH)),
    # huggingface.co/Snowflake/snowflake-arctic-embed-m and -m-v2.0
    (re.compile(r"(^|/)snowflake-arctic-embed(2|-[ml]-v2)"), Prefixes("query: ")),
    (re.compile(r"(^|/)snowflake-arctic-embed"), Prefixes(_SEARCH)),
    # huggingface.co/google/embeddinggemma-300m; ai.google.dev/gemini-api/docs/embeddings
    (
        re.compile(r"(^|/)(embeddinggemma|gemini-embedding-2)"),
        Prefixes("task: search result | query: ", "title: none | text: "),
    ),
)


def prefixes_of(model: str, query: str | None = None, document: str | None = None) -> Prefixes:
    """The prefixes of a model.

    Args:
        model: its name.
        query: the configured prefix of queries; None for the model's.
        document: the configured prefix of documents; None for the model's.

    Returns:
        The prefixes; empty for a model that has none or is not known.
    """
    known = next((prefixes for pattern, prefixes in _KNOWN if pattern.search(model.lower())), Prefixes())
    return Prefixes(known.query if query is None else query, known.document if document is None else document)
