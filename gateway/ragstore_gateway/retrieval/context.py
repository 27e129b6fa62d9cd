"""The text that passages add to the system message, within a maximum number of characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ragstore_client.context import Headings
from ragstore_gateway.configurations.name_characters import in_one_line
from ragstore_gateway.engines.engine_collection import Passage

SEARCH_RESULTS: Final = "\n\n## Search Results:\n"
RELEVANT_CONTEXT: Final = "\n\n## Relevant Context:\n"
CUT_MARK: Final = "\n..."
"""End of a text that was cut."""

_STYLE: Final = Headings()
_END: Final = "\n\n"


def fit(passages: Sequence[Passage], max_characters: int, *, ranked: bool) -> list[Passage]:
    """The passages that fit, in the given order.

    A passage is in the context as a whole or not at all, the best ones first; a passage that does not fit is skipped,
    and smaller ones after it are still tried. Only a best passage that is larger than the maximum is cut.

    Args:
        passages: passages of named bases.
        max_characters: maximum number of characters of `formatted`.
        ranked: whether a ranking gave the order; otherwise the passages of each base are together, and a higher rank is
            better.
    """
    order = list(range(len(passages)))
    if not ranked:
        order.sort(key=lambda index: passages[index].place[:2])
    chosen: dict[int, Passage] = {}
    headed: set[str] = set()
    left = max_characters
    for index in order:
        each = passages[index]
        # In a ranking, each passage may need a heading of its own.
        heading = "" if not ranked and each.base in headed else _heading(each.base)
        size = len(heading) + len(_written(each.text)) + len(_END)
        if size > left:
            continue
        chosen[index] = each
        headed.add(each.base)
        left -= size
    if not chosen and order:
        best = passages[order[0]]
        space = max_characters - len(_heading(best.base)) - len(CUT_MARK) - len(_END)
        if space > 0:
            chosen[order[0]] = replace(best, text=_cut(best.text, space) + CUT_MARK)
    return [chosen[index] for index in sorted(chosen)]


def formatted(passages: Sequence[Passage]) -> str:
    """`### Source: NAME`, and the texts of its passages; a heading for each change of the knowledge base.

    Lines of a passage that look like the context's own structure get a backslash.
    """
    parts: list[str] = []
    base = ""
    for each in passages:
        if not parts or each.base != base:
            parts.append(_heading(each.base))
            base = each.base
        parts.append(_written(each.text) + _END)
    return "".join(parts)


def search_results(text: str, max_characters: int) -> str:
    """The response of an HTTP call as it is written in the context.

    Args:
        text: the part of the response that is used.
        max_characters: maximum number of characters.
    """
    # Escaped text is never shorter, so no more of a large response needs to be escaped.
    escaped = _STYLE.escape(text[: max_characters + 1])
    if len(escaped) <= max_characters:
        return escaped
    return (escaped[: max(0, max_characters - len(CUT_MARK))] + CUT_MARK)[:max_characters]


def _written(text: str) -> str:
    """A text as it is written in the context."""
    return _STYLE.escape(text)


def _cut(text: str, max_characters: int) -> str:
    """The longest start of a text that has at most a number of characters when it is written."""
    kept = text[:max_characters]
    while (excess := len(_written(kept)) - max_characters) > 0:
        kept = kept[:-excess]
    return kept


def _heading(base: str) -> str:
    # A name that is older than the rule for its characters must not end the heading.
    return f"### Source: {in_one_line(base)}\n\n"
