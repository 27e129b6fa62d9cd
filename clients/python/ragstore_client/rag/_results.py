"""What a search over archives gives: hits, and the archives that gave none and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from ragstore_client._models import StoredMetadata
from ragstore_client.rag._config import RagArchiveConfig


class RetrievedPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that was found.

    Attributes:
        archive: where.
        id: its id in the archive's collection.
        text: its whole text.
        metadata: its metadata.
        distance: how far it is from the query, by the collection's measure; None when float32 cannot say it.
        score: how near it is; 1 is the same direction for cosine.
    """

    archive: RagArchiveConfig
    id: str
    text: str
    metadata: StoredMetadata = {}
    distance: float | None = None
    score: float | None = None

    @property
    def span(self) -> tuple[str, int, int] | None:
        """The document and the characters that it covers; None when the metadata does not tell."""
        document, start, end = (self.metadata.get(key) for key in ("document_id", "char_start", "char_end"))
        if isinstance(document, str) and isinstance(start, int) and isinstance(end, int):
            return document, start, end
        return None


class SkipReason(StrEnum):
    """Why an archive gave nothing."""

    UNREACHABLE = "unreachable"
    TOO_SLOW = "too slow"
    NOT_FOUND = "collection not found"
    DIMENSION = "other embedding dimension"
    FORBIDDEN = "key not accepted"
    NOT_EMBEDDED = "query not embedded"
    MISCONFIGURED = "misconfigured"
    FAILED = "search failed"


class SkippedArchive(msgspec.Struct, frozen=True):
    """An archive that gave nothing.

    Attributes:
        archive: which.
        reason: why.
    """

    archive: RagArchiveConfig
    reason: SkipReason


class SearchResults(msgspec.Struct, frozen=True):
    """What a search found. Iterating goes over the hits.

    Attributes:
        hits: the passages, nearest first.
        skipped: the archives that could not be searched.
        searched: how many could.
    """

    hits: list[RetrievedPassage] = []
    skipped: list[SkippedArchive] = []
    searched: int = 0

    def __iter__(self) -> Iterator[RetrievedPassage]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    @property
    def unavailable(self) -> bool:
        """Whether no archive was there to be searched."""
        absent = {SkipReason.UNREACHABLE, SkipReason.TOO_SLOW, SkipReason.NOT_FOUND, SkipReason.MISCONFIGURED}
        return self.searched == 0 and all(skipped.reason in absent for skipped in self.skipped)


def ranked(hits: Iterable[RetrievedPassage], top_k: int) -> list[RetrievedPassage]:
    """Put hits of all archives in one order.

    Args:
        hits: the hits, as they came.
        top_k: most to keep.

    Returns:
        The nearest, each passage once: neither the same span of a document nor the same text comes twice.
    """
    seen: set[object] = set()
    kept: list[RetrievedPassage] = []
    for hit in sorted(hits, key=_nearness):
        marks = {mark for mark in (hit.span, " ".join(hit.text.split())) if mark}
        if seen.isdisjoint(marks):
            kept.append(hit)
        seen |= marks
    return kept[:top_k]


def _nearness(hit: RetrievedPassage) -> float:
    return math.inf if hit.distance is None else hit.distance
