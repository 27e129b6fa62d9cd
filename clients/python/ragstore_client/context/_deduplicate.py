"""Drops passages that repeat another one."""

from __future__ import annotations

from collections.abc import Iterable

from ragstore_client.context._order import by_similarity
from ragstore_client.context._passages import Passage


def deduplicate(passages: Iterable[Passage], *, by_url: bool = False) -> list[Passage]:
    """Keep one of several equal passages, the most similar one.

    Passages are equal if they have the same id in the same collection, the same text apart from whitespace or,
    optionally, the same `url`. A range of characters (`char_start`, `char_end`) identifies no text: offsets may restart
    on each page of a document.

    Args:
        passages: the passages, in any order.
        by_url: whether passages with the same `url` are equal.

    Returns:
        The remaining passages, in the same order.
    """
    given = list(passages)
    seen: set[object] = set()
    kept: set[int] = set()
    for passage in by_similarity(given):
        identities = _identities(passage, by_url=by_url)
        if seen.isdisjoint(identities):
            kept.add(id(passage))
        # Identities of a dropped passage count too, so that equality is transitive.
        seen |= identities
    unique: list[Passage] = []
    for passage in given:
        if id(passage) in kept:
            kept.discard(id(passage))  # the same object may be given twice
            unique.append(passage)
    return unique


def _identities(passage: Passage, *, by_url: bool) -> set[object]:
    identities: set[object] = {("id", passage.collection, passage.id)}
    if text := " ".join(passage.text.split()):
        identities.add(("text", text))
    url = passage.metadata.get("url")
    if by_url and isinstance(url, str) and url:
        identities.add(("url", url))
    return identities
