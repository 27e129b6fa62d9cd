"""The results of a search over archives: passages, and the archives that were skipped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from ragstore_client._models import StoredMetadata
from ragstore_client.rag._config import RagArchiveConfig


class RetrievedPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that a search has found.

    Attributes:
        archive: the archive that contains it.
        id: its id in the archive's collection.
        distance: its distance from the query; None when float32 cannot represent it.
        score: its similarity to the query; for cosine, 1 is the same direction.
        embedding: its vector, when requested.
    """

    archive: RagArchiveConfig
    id: str
    text: str
    metadata: StoredMetadata = {}
    distance: float | None = None
    score: float | None = None
    embedding: list[float] | None = None

    @property
    def span(self) -> tuple[str, int, int] | None:
        """Its document and its range of characters; None when the metadata has no such values."""
        document, start, end = (self.metadata.get(key) for key in ("document_id", "char_start", "char_end"))
        if isinstance(document, str) and isinstance(start, int) and isinstance(end, int):
            return document, start, end
        return None


class SkipReason(StrEnum):
    """Why an archive was skipped."""

    UNREACHABLE = "unreachable"
    TOO_SLOW = "too slow"
    NOT_FOUND = "collection not found"
    DIMENSION = "other embedding dimension"
    FORBIDDEN = "key not accepted"
    NOT_EMBEDDED = "query not embedded"
    MISCONFIGURED = "misconfigured"
    FAILED = "search failed"


class SkippedArchive(msgspec.Struct, frozen=True):
    """An archive that was skipped.

    Attributes:
        reason: why it was skipped.
    """

    archive: RagArchiveConfig
    reason: SkipReason


class SearchResults(msgspec.Struct, frozen=True):
    """The results of a search. Iterating yields the passages.

    Attributes:
        passages: the passages, nearest first.
        skipped: the archives that were skipped.
        searched: number of archives that were searched.
    """

    passages: list[RetrievedPassage] = []
    skipped: list[SkippedArchive] = []
    searched: int = 0

    def __iter__(self) -> Iterator[RetrievedPassage]:
        return iter(self.passages)

    def __len__(self) -> int:
        return len(self.passages)

    @property
    def unavailable(self) -> bool:
        """Whether no archive was available."""
        absent = {SkipReason.UNREACHABLE, SkipReason.TOO_SLOW, SkipReason.NOT_FOUND, SkipReason.MISCONFIGURED}
        return self.searched == 0 and all(skipped.reason in absent for skipped in self.skipped)


def rank(passages: Iterable[RetrievedPassage], top_k: int) -> list[RetrievedPassage]:
    """Rank the passages of all archives together.

    Args:
        passages: the passages, in any order.
        top_k: maximum number of passages.

    Returns:
        The nearest passages without duplicates: no text occurs twice. A span may, since offsets may restart on each
        page of a document; passages without text are compared by their spans.
    """
    seen: set[object] = set()
    unique: list[RetrievedPassage] = []
    for passage in sorted(passages, key=_distance):
        identity = " ".join(passage.text.split()) or passage.span
        if identity is None or identity not in seen:
            unique.append(passage)
        seen.add(identity)
    return unique[:top_k]


def _distance(passage: RetrievedPassage) -> float:
    return math.inf if passage.distance is None else passage.distance
