"""The prompt style `sources`: numbered sources in the last user message, each with the passages that there is room for.

The sources of plain models are named by their URLs, as the example of the flow has it, and the sources of assistants by
document, page or heading, and link.

Source: the retrieval flow of a local assistant. The nearest sources are chosen, their order may be made diverse, and
what fits is numbered.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from ragstore_client.context import Budget, ContextPassage, Numbered, select
from ragstore_gateway.chat.prompt_passage import PromptPassage
from ragstore_gateway.configurations.assistant import Assistant
from ragstore_gateway.conversations.step import Fate
from ragstore_gateway.engines.engine_collection import Passage
from ragstore_gateway.retrieval.library_passages import library_passage
from ragstore_gateway.retrieval.numbering import in_text_order, source_of
from ragstore_gateway.retrieval.source_names import SourceName, one_line, without_path
from ragstore_gateway.settings import Settings


class _Sources(Numbered, frozen=True, kw_only=True):
    """Sources that may have several passages: each has a block, and the list has the source once."""

    def context(self, passages: Sequence[ContextPassage]) -> str:
        """`Context:`, the blocks, `Sources:`, and the list."""
        if not passages:
            return ""
        heading, list_heading, end = self.frame
        blocks: list[str] = []
        items: list[str] = []
        for each in passages:
            block, item = self.parts(each)
            blocks.append(block)
            if not (isinstance(each, PromptPassage) and each.is_further):
                items.append(item)
        return "".join((heading, *blocks, list_heading, *items, end))


class PlainSources(_Sources, frozen=True, kw_only=True):
    """Sources that are named by their URLs, or else by their citations; with the page of a document that has pages."""

    def parts(self, passage: ContextPassage) -> list[str]:
        """A block with the number, the name and the text, and an item of the list."""
        url = passage.metadata.get("url")
        name = without_path(one_line(url if isinstance(url, str) and url else passage.citation))
        place = SourceName.of(passage.metadata, name).place if "page_number" in passage.metadata else ""
        return _parts(self, passage, f"{name}, {place}" if place else name)


class NamedSources(_Sources, frozen=True, kw_only=True):
    """Sources that are named by document, page or heading, and link."""

    def parts(self, passage: ContextPassage) -> list[str]:
        """A block with the number, the name and the text, and an item of the list."""
        return _parts(self, passage, SourceName.of(passage.metadata, passage.citation).label)


def _parts(style: Numbered, passage: ContextPassage, name: str) -> list[str]:
    source = f"[{passage.number}] {name}"
    return [f"Source {source}\n{style.escape(passage.text)}\n\n", f"- {source}\n"]


PLAIN: Final = PlainSources()
NAMED: Final = NamedSources()

CUT_MARK: Final = "\n...\n"
"""End of a passage that was cut."""


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """The limits of a prompt.

    Attributes:
        max_sources: maximum number of sources.
        max_characters: maximum number of characters of a passage; a longer one is cut.
        token_budget: maximum number of tokens of all passages.
        max_context_characters: maximum number of characters of all passages, with their names; None for none.
    """

    max_sources: int
    max_characters: int
    token_budget: int
    max_context_characters: int | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> SourceLimits:
        """The limits that the settings choose."""
        return cls(settings.rag_max_sources, settings.rag_max_characters, settings.rag_token_budget)


def style_of(assistant: Assistant) -> Numbered:
    """The form of the prompts of an assistant. A plain model has no name."""
    return NAMED if assistant.name else PLAIN


def nearest_sources(passages: Sequence[Passage], count: int) -> tuple[list[Passage], list[tuple[Passage, Fate]]]:
    """The best passage of each of the nearest sources, the best one first.

    A source is a URL, or else a document, or else a passage. A text that several of these passages have counts once.

    Args:
        passages: the passages of all bases.
        count: maximum number of sources.

    Returns:
        The passages, and the other ones with the reason why they are not among these.
    """
    sources: set[tuple[object, ...]] = set()
    texts: set[str] = set()
    nearest: list[Passage] = []
    others: list[tuple[Passage, Fate]] = []
    for each in sorted(passages, key=lambda each: each.place):
        source, text = source_of(each), written_once(each)
        if source in sources:
            others.append((each, "same_source"))
            continue
        if text in texts:
            others.append((each, "duplicate"))
        elif len(nearest) == count:
            others.append((each, "ranked_away"))
        else:
            nearest.append(each)
        sources.add(source)
        texts.add(text)
    return nearest, others


def without_repetitions(passages: Sequence[Passage]) -> tuple[list[Passage], list[tuple[Passage, Fate]]]:
    """The passages in their order, each text once: the text of the best one. And the others, with the reason."""
    best: dict[str, Passage] = {}
    for each in sorted(passages, key=lambda each: each.place):
        best.setdefault(written_once(each), each)
    kept = {id(each) for each in best.values()}
    return [each for each in passages if id(each) in kept], [
        (each, "duplicate") for each in passages if id(each) not in kept
    ]


def written_once(passage: Passage) -> str:
    """The text of a passage by which equal ones are recognised."""
    return " ".join(passage.text.split())


@dataclass(frozen=True, slots=True)
class FittingSources:
    """The passages that fit into a prompt, in their order.

    Attributes:
        used: the passages.
        numbered: the same passages as the prompt has them.
        further: the bases and ids of passages whose source has a better one.
    """

    used: Sequence[Passage]
    numbered: Sequence[ContextPassage]
    further: Set[tuple[str, str]]


def fitting_sources(
    passages: Sequence[Passage], limits: SourceLimits, style: Numbered, first: int = 1
) -> FittingSources:
    """The passages that fit into a prompt. The passages of a source share its number, in the order of its text.

    Args:
        passages: one passage of each source, in the order of the sources, and then further ones, best first.
        style: the form of the prompt.
        first: number of the first source.
    """
    by_id = {(each.base, each.id): each for each in passages}
    cut = [library_passage(replace(each, text=_cut(each.text, limits.max_characters))) for each in passages]
    budget = Budget(token_budget=limits.token_budget, max_passages=len(passages), max_sources=limits.max_sources)
    selected = select(cut, style=style, budget=budget)
    if limits.max_context_characters is not None:
        selected = _within(selected, limits.max_context_characters, style)

    def passage_of(each: ContextPassage) -> Passage:
        return by_id[each.collection or "", each.id]

    sources: set[tuple[Hashable, ...]] = set()
    further: set[tuple[str, str]] = set()
    for own in map(passage_of, selected):
        if source_of(own) in sources:
            further.add((own.base, own.id))
        sources.add(source_of(own))
    numbered = [
        structs.replace(each, number=number)
        for number, source in enumerate(in_text_order(selected, passage_of), first)
        for each in source
    ]
    return FittingSources([passage_of(each) for each in numbered], numbered, further)


def _within(passages: Sequence[ContextPassage], max_characters: int, style: Numbered) -> list[ContextPassage]:
    """The passages that fit into a number of characters. Only a best passage that alone is too large is cut."""
    kept: list[ContextPassage] = []
    left = max_characters
    for each in passages:
        size = sum(map(len, style.parts(each)))
        if size <= left:
            kept.append(each)
            left -= size
    if not kept and passages:
        best = passages[0]
        while (excess := sum(map(len, style.parts(best))) - max_characters) > 0:
            end = (
                len(best.text.removesuffix(CUT_MARK)) - excess - (0 if best.text.endswith(CUT_MARK) else len(CUT_MARK))
            )
            if end <= 0:
                return []
            best = structs.replace(best, text=best.text[:end] + CUT_MARK)
        kept.append(best)
    return kept


def _cut(text: str, max_characters: int) -> str:
    return text[:max_characters] + CUT_MARK if len(text) > max_characters else text
