"""Drops passages that are not similar enough to the query, and contexts of short questions without similar ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ragstore_client.context._passages import Passage

SIMILARITY_THRESHOLD: Final = 0.2
"""Default threshold, a cosine similarity. On LangChain4j's scale of relevance it is 0.6."""

MIN_QUESTION_CHARACTERS: Final = 10
"""Default minimum number of characters of a question that is not short."""

_ROUNDING: Final = 1e-6
"""Tolerance for float32 distances: a distance of 0.8 is a similarity of 0.19999999, which counts as 0.2."""


def above_threshold(passages: Iterable[Passage], threshold: float = SIMILARITY_THRESHOLD) -> list[Passage]:
    """Keep the passages whose similarity is at least a threshold.

    Args:
        passages: the passages, in any order.
        threshold: minimum cosine similarity, -1 to 1.

    Returns:
        The passages in the same order. A passage without a similarity is kept; one whose similarity is not a number is
        dropped.
    """
    minimum = threshold - _ROUNDING
    return [passage for passage in passages if passage.similarity is None or passage.similarity >= minimum]


def is_short(question: str, min_characters: int = MIN_QUESTION_CHARACTERS) -> bool:
    """Whether a question has fewer characters than a minimum, surrounding whitespace not counted."""
    return len(question.strip()) < min_characters


def skips_context(question: str, passages: Iterable[Passage], *, min_characters: int = MIN_QUESTION_CHARACTERS) -> bool:
    """Whether a question gets no context: it is short, and no passage is known to be similar to it.

    Args:
        passages: the passages above the threshold. One without a similarity is not known to be similar.
        min_characters: a question with fewer characters is short.
    """
    return is_short(question, min_characters) and all(passage.similarity is None for passage in passages)
