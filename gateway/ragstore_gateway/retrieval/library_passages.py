"""Passages in the forms of the context library, which selects, orders and cites them."""

from __future__ import annotations

from ragstore_client import context
from ragstore_gateway.engines.engine_collection import Passage, Vector


def library_passage(passage: Passage, id: str | None = None, embedding: Vector | None = None) -> context.Passage:
    """A passage as the library selects and orders it.

    Args:
        passage: a passage of a named base.
        id: its id in the result; its own id by default.
        embedding: a vector to compare with the vectors of other passages.
    """
    return context.Passage(
        id=passage.id if id is None else id,
        text=passage.text,
        metadata=dict(passage.metadata),
        similarity=passage.cosine,
        embedding=embedding,
        collection=passage.base,
    )


def cited(passage: Passage, index: int, *, similarity: float | None) -> context.ContextPassage:
    """A passage as a reply may cite it: by its number, by its base as the prompt names it, or by its document.

    Args:
        passage: a passage of a named base.
        index: its place among the passages of its base, from 1; 0 if the base has no others.
        similarity: its cosine similarity to the question; None if it was not compared.
    """
    document = context.citation_of(library_passage(passage))
    return context.ContextPassage(
        id=passage.id,
        text=passage.text,
        metadata={"url": document, **passage.metadata} if passage.metadata else {},
        similarity=similarity,
        citation=f"{passage.base}#{index}" if index else passage.base,
        number=0,
        tokens=context.estimate_tokens(passage.text),
        collection=passage.base,
    )
