"""The numbers of passages in a prompt: the passages of one source share a number, and are in the order of its text."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, TypeVar

from ragstore_gateway.engines.engine_collection import DOCUMENT_KEY, MetadataValue, Passage

T = TypeVar("T")

_POSITIONS: Final = ("char_start", "chunk_index", "chunk_ix")
"""Metadata keys of the place of a passage in its source. Records of others have the last two."""


def source_of(passage: Passage) -> tuple[Hashable, ...]:
    """The source that a passage belongs to: a URL, or else a document, or else the passage itself."""
    url: MetadataValue | None = passage.metadata.get("url")
    if url:
        return "url", url
    document = passage.metadata.get(DOCUMENT_KEY)
    return ("document", document) if document else ("passage", passage.base, passage.id)


def in_text_order(items: Iterable[T], passage_of: Callable[[T], Passage], *, by_base: bool = False) -> list[list[T]]:
    """The passages of each source together, in the order of its text. Sources are in the order of their first passages.

    Args:
        items: the passages, or what has them.
        passage_of: the passage of an item.
        by_base: whether a source belongs to one knowledge base.
    """
    groups: dict[tuple[Hashable, ...], list[T]] = {}
    for each in items:
        groups.setdefault(_key(passage_of(each), by_base=by_base), []).append(each)
    return [sorted(group, key=lambda each: _position(passage_of(each))) for group in groups.values()]


def numbers_of(passages: Sequence[Passage], first: int) -> list[int]:
    """The number of each passage under the headings of knowledge bases.

    Args:
        passages: the passages in their order in the prompt.
        first: the first number.
    """
    numbers: dict[tuple[Hashable, ...], int] = {}
    return [numbers.setdefault(_key(each, by_base=True), first + len(numbers)) for each in passages]


def _key(passage: Passage, *, by_base: bool) -> tuple[Hashable, ...]:
    return (passage.base, *source_of(passage)) if by_base else source_of(passage)


def _position(passage: Passage) -> int:
    found = (passage.metadata.get(key) for key in _POSITIONS)
    return next((value for value in found if isinstance(value, int) and not isinstance(value, bool)), 0)
