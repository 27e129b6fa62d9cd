"""The text that passages add to the system message: numbered, under the names of their bases, within a budget."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ragstore_client.context import Headings, estimate_tokens
from ragstore_gateway.configurations.name_characters import in_one_line
from ragstore_gateway.engines.engine_collection import Passage
from ragstore_gateway.retrieval.numbering import in_text_order, numbers_of
from ragstore_gateway.retrieval.source_names import SourceName

SEARCH_RESULTS: Final = "\n\n## Search Results:\n"
RELEVANT_CONTEXT: Final = "\n\n## Relevant Context:\n"
CUT_MARK: Final = "\n..."
"""End of a text that was cut."""

CITE_INSTRUCTION: Final = (
    "Cite the passages that a statement is based on by their numbers, directly after it, such as [1] or [2][3]. "
    "Cite no other numbers."
)
"""How to cite, unless an assistant has an instruction of its own."""

NOTHING_FOUND: Final = (
    "Nothing was found in the knowledge bases for the user's last message. If a reply needs it, say so, and cite no "
    "sources."
)
NOT_SEARCHED: Final = (
    "The knowledge bases could not be searched for the user's last message. If a reply needs them, say so, and cite no "
    "sources."
)

_STYLE: Final = Headings()
_END: Final = "\n\n"
_NUMBERED_LINE: Final = re.compile(
    r"^(?=\\*[^\S\n]*[\[\uff3b\u3010\u3014]\s*\d+\s*[\]\uff3d\u3011\u3015])", re.MULTILINE
)
"""Begins a line that looks like the number of a passage."""

_MAX_CHARACTERS_PER_TOKEN: Final = 8
"""A text is cut to so many characters for each token before its tokens are counted."""


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """The space for the passages of a task.

    Attributes:
        characters: maximum number of characters, with headings and labels.
        tokens: the same in tokens, as `estimate_tokens` counts them.
    """

    characters: int
    tokens: int

    def has_room(self, text: str) -> bool:
        """Whether a text fits."""
        return len(text) <= self.characters and estimate_tokens(text) <= self.tokens

    def without(self, text: str) -> ContextBudget:
        """The space that a text leaves; negative if it does not fit."""
        return ContextBudget(self.characters - len(text), self.tokens - estimate_tokens(text))


def fit(passages: Sequence[Passage], budget: ContextBudget, *, ranked: bool, first: int = 1) -> list[Passage]:
    """The passages that fit, in the given order of their documents.

    The passages of a document are together, in the order of its text.

    A passage is in the context as a whole or not at all, the best ones first; a passage that does not fit is skipped,
    and smaller ones after it are still tried. Only a best passage that is larger than the maximum is cut.

    Args:
        passages: passages of named bases.
        budget: the maximum of `formatted`.
        ranked: whether a ranking gave the order; otherwise the passages of each base are together, and a higher rank is
            better.
        first: number of the first passage.
    """
    order = list(range(len(passages)))
    if not ranked:
        order.sort(key=lambda index: passages[index].place[:2])
    # As wide as the number that a passage may get.
    number = first + len(passages) - 1
    chosen: dict[int, Passage] = {}
    headed: set[str] = set()
    left = budget
    for index in order:
        each = passages[index]
        # In a ranking, each passage may need a heading of its own.
        heading = "" if not ranked and each.base in headed else _heading(each.base)
        piece = heading + _label(each, number) + _written(each.text) + _END
        rest = left.without(piece)
        if rest.characters >= 0 and rest.tokens >= 0:
            chosen[index] = each
            headed.add(each.base)
            left = rest
    if not chosen and order:
        best = passages[order[0]]
        kept = _cut(best.text, budget.without(_heading(best.base) + _label(best, number) + CUT_MARK + _END))
        if kept:
            chosen[order[0]] = replace(best, text=kept + CUT_MARK)
    in_order = [chosen[index] for index in sorted(chosen)]
    return [each for source in in_text_order(in_order, lambda own: own, by_base=True) for each in source]


def formatted(passages: Sequence[Passage], first: int = 1) -> str:
    """`### Source: NAME` at each change of the base, and the passages: `[1] DOCUMENT, page 2`, and the text.

    Passages of one document have one number.

    Lines of a passage that look like the context's own structure get a backslash.

    Args:
        first: number of the first passage.
    """
    parts: list[str] = []
    base = ""
    for number, each in zip(numbers_of(passages, first), passages, strict=True):
        if not parts or each.base != base:
            parts.append(_heading(each.base))
            base = each.base
        parts.append(_label(each, number) + _written(each.text) + _END)
    return "".join(parts)


def search_results(text: str, max_characters: int) -> str:
    """The response of an HTTP call as it is written in the context.

    Args:
        text: the part of the response that is used.
        max_characters: maximum number of characters.
    """
    # Escaped text is never shorter, so no more of a large response needs to be escaped.
    escaped = _written(text[: max_characters + 1])
    if len(escaped) <= max_characters:
        return escaped
    return (escaped[: max(0, max_characters - len(CUT_MARK))] + CUT_MARK)[:max_characters]


def _written(text: str) -> str:
    """A text as it is written in the context."""
    return _NUMBERED_LINE.sub(r"\\", _STYLE.escape(text))


def _cut(text: str, budget: ContextBudget) -> str:
    """The longest start of a text that fits when it is written; empty if nothing does."""
    low, high = 0, max(0, min(len(text), budget.characters, _MAX_CHARACTERS_PER_TOKEN * budget.tokens))
    while low < high:
        middle = (low + high + 1) // 2
        if budget.has_room(_written(text[:middle])):
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _heading(base: str) -> str:
    # A name that is older than the rule for its characters must not end the heading.
    return f"### Source: {in_one_line(base)}\n\n"


def _label(passage: Passage, number: int) -> str:
    """The line before a text: its number, its document, and its page or heading."""
    return f"[{number}] {SourceName.of(passage.metadata, passage.base).label}\n"


def search_results_label(name: str, number: int) -> str:
    """The line before the response of an HTTP call.

    Args:
        name: name of the call.
    """
    return f"[{number}] {in_one_line(name)}\n"
