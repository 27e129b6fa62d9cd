"""Drops passages that are not similar enough to the query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ragstore_client.context._passages import Passage

SIMILARITY_THRESHOLD: Final = 0.2
"""Default threshold, a cosine similarity. On LangChain4j's scale of relevance it is 0.6."""

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
