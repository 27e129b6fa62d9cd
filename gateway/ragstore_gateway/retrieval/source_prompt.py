"""The prompt style `sources`: numbered sources in the last user message, one passage of each.

Source: the retrieval flow of a local assistant. The nearest sources are chosen, their order may be made diverse, and
what fits is numbered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ragstore_client.context import Budget, ContextPassage, Numbered, select
from ragstore_gateway.engines.engine_collection import DOCUMENT_KEY, Passage
from ragstore_gateway.retrieval.library_passages import library_passage
from ragstore_gateway.settings import Settings

STYLE: Final = Numbered()

CUT_MARK: Final = "\n...\n"
"""End of a passage that was cut."""


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """The limits of a prompt.

    Attributes:
        max_sources: maximum number of sources.
        max_characters: maximum number of characters of a passage; a longer one is cut.
        token_budget: maximum number of tokens of all passages.
    """

    max_sources: int
    max_characters: int
    token_budget: int

    @classmethod
    def from_settings(cls, settings: Settings) -> SourceLimits:
        """The limits that the settings choose."""
        return cls(settings.rag_max_sources, settings.rag_max_characters, settings.rag_token_budget)


def nearest_sources(passages: Sequence[Passage], count: int) -> list[Passage]:
    """The best passage of each of the nearest sources, the best one first.

    A source is a URL, or else a document, or else a passage. A text that several of these passages have counts once.

    Args:
        passages: the passages of all bases.
        count: maximum number of sources.
    """
    best: dict[tuple[object, ...], Passage] = {}
    for each in sorted(passages, key=lambda each: each.place):
        best.setdefault(_source(each), each)
    texts: set[str] = set()
    unique: list[Passage] = []
    for each in best.values():
        text = " ".join(each.text.split())
        if text not in texts:
            unique.append(each)
        texts.add(text)
    return unique[:count]


def fitting_sources(passages: Sequence[Passage], limits: SourceLimits) -> tuple[list[Passage], list[ContextPassage]]:
    """The passages that fit into a prompt, in their order.

    Args:
        passages: one passage of each source.

    Returns:
        The passages, and the same passages as the prompt has them, numbered from 1.
    """
    by_id = {(each.base, each.id): each for each in passages}
    cut = [library_passage(replace(each, text=_cut(each.text, limits.max_characters))) for each in passages]
    budget = Budget(token_budget=limits.token_budget, max_passages=len(passages), max_sources=limits.max_sources)
    selected = select(cut, style=STYLE, budget=budget)
    return [by_id[passage.collection or "", passage.id] for passage in selected], selected


def _source(each: Passage) -> tuple[object, ...]:
    url = each.metadata.get("url")
    if url:
        return "url", url
    document = each.metadata.get(DOCUMENT_KEY)
    return ("document", document) if document else ("passage", each.base, each.id)


def _cut(text: str, max_characters: int) -> str:
    return text[:max_characters] + CUT_MARK if len(text) > max_characters else text
