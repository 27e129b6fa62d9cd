"""Selects the passages that fit a budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ragstore_client._exceptions import InvalidConfiguration
from ragstore_client.context._citations import Names, citation_of, source_of
from ragstore_client.context._formats import Style
from ragstore_client.context._passages import ContextPassage, Passage
from ragstore_client.context._tokens import TokenCounter, estimate_tokens

_CUT_MARK: Final = "..."
_MAX_TOKENS: Final = 4
"""Maximum number of tokens of a character: one per byte of UTF-8."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a context.

    Attributes:
        token_budget: maximum number of tokens of the formatted context, headings and separators included.
        max_passages: maximum number of passages.
        max_sources: maximum number of different sources (files or URLs); None for no limit.
        max_characters: maximum number of characters of each passage; longer ones are cut. None for no limit.
    """

    token_budget: int = 50_000
    max_passages: int = 40
    max_sources: int | None = None
    max_characters: int | None = None

    def __post_init__(self) -> None:
        """Check the limits."""
        for name, minimum in (("token_budget", 0), ("max_passages", 0), ("max_sources", 0), ("max_characters", 4)):
            value: int | None = getattr(self, name)
            if value is not None and value < minimum:
                raise InvalidConfiguration(f"{name} must be at least {minimum}, not {value}")


def select(
    passages: Sequence[Passage],
    *,
    style: Style,
    budget: Budget | None = None,
    count_tokens: TokenCounter = estimate_tokens,
    names: Names | None = None,
) -> list[ContextPassage]:
    """Select passages within a budget, best first.

    A passage that does not fit is skipped, and smaller ones after it are still tried. Passages without text are
    skipped. A passage with a `token_count` in its metadata is not counted again, unless the number is impossible: more
    than four tokens per character. With a tokenizer, the formatted context is counted as a whole in the end, so
    `count_tokens(style.context(selected))` never exceeds the budget, whatever the metadata claims: if it would, all
    passages are counted. With the estimate, a `token_count` is believed down to half the estimate.

    Args:
        passages: the candidates, best first.
        style: the format; it determines headings and separators.
        budget: the limits.
        count_tokens: counts the tokens of a text.
        names: file names for citations, as for `citation_of`.

    Returns:
        The selected passages, numbered from 1.
    """
    limits = budget or Budget()
    limit = limits.token_budget
    believes = any(_known_tokens(passage) is not None for passage in passages)
    while True:
        selection = _Selection(limits, style, count_tokens, names, believes=believes)
        selected = selection.run(passages, limit)
        if not selected or count_tokens is estimate_tokens:
            return selected
        excess = count_tokens(style.context(selected)) - limits.token_budget
        if excess <= 0:
            return selected
        if believes:
            believes = False  # some `token_count` is too small
        else:
            limit = selection.used - excess  # tokens form differently where two pieces meet


class _Selection:
    """One run through the candidates."""

    def __init__(
        self, budget: Budget, style: Style, count_tokens: TokenCounter, names: Names | None, *, believes: bool
    ) -> None:
        self._budget = budget
        self._style = style
        self._count = count_tokens
        self._names = names
        self._believes = believes
        self.used = 0
        """Tokens of the frame and of the selected passages."""
        self._selected: list[ContextPassage] = []
        self._sources: set[str] = set()

    def run(self, passages: Sequence[Passage], limit: int) -> list[ContextPassage]:
        self.used = sum(map(self._count, self._style.frame))
        for passage in passages:
            if len(self._selected) >= self._budget.max_passages:
                break
            if not passage.text.strip():
                continue
            source = source_of(passage, self._names)
            if source not in self._sources and len(self._sources) == self._budget.max_sources:
                continue
            entry = self._entry(passage)
            if self.used + entry.tokens <= limit:
                self.used += entry.tokens
                self._selected.append(entry)
                self._sources.add(source)
        return self._selected

    def _entry(self, passage: Passage) -> ContextPassage:
        text = cut(passage.text, self._budget.max_characters)
        entry = ContextPassage(
            id=passage.id,
            text=text,
            metadata=passage.metadata,
            similarity=passage.similarity,
            citation=citation_of(passage, self._names),
            number=len(self._selected) + 1,
            tokens=0,
            collection=passage.collection,
        )
        parts = self._style.parts(entry)
        known = _known_tokens(passage) if self._believes else None
        if known is None or (escaped := self._style.escape(text)) != passage.text:
            return msgspec.structs.replace(entry, tokens=sum(map(self._count, parts)))
        if self._count is estimate_tokens:
            known = max(known, estimate_tokens(text) // 2)
        around = [piece for part in parts for piece in part.split(escaped, 1)]
        return msgspec.structs.replace(entry, tokens=known + sum(map(self._count, around)))


def cut(text: str, max_characters: int | None) -> str:
    """Shorten a text.

    Args:
        max_characters: maximum number of characters, at least 4; None for no limit.

    Returns:
        The text, cut between words where there is a space in its last fifth, with "..." at its end if it was cut.
    """
    if max_characters is None or len(text) <= max_characters:
        return text
    end = max_characters - len(_CUT_MARK)
    space = max(text.rfind(character, end - end // 5, end + 1) for character in " \n\t")
    return text[: space if space > 0 else end].rstrip() + _CUT_MARK


def _known_tokens(passage: Passage) -> int | None:
    """The `token_count` of a passage's metadata, if it is a possible one."""
    count = passage.metadata.get("token_count")
    if not isinstance(count, int) or isinstance(count, bool):
        return None
    return count if 0 < count <= _MAX_TOKENS * len(passage.text) else None
