"""The parts of a search over archives without I/O: its filter, its passages, and why something failed."""

from __future__ import annotations

from collections.abc import Mapping

from ragstore_client._exceptions import EmbeddingFailed, describe
from ragstore_client._models import JSON, CollectionError, Match, Where, none_if_nan
from ragstore_client.rag._config import RagArchiveConfig, RagSettings
from ragstore_client.rag._results import RetrievedPassage, SkippedArchive, SkipReason

ALL_LAYERS = "*"

_MIN_WORD = 4
"""Shorter words of a query, such as articles, occur in any text."""


def chroma_access(settings: RagSettings) -> dict[str, str]:
    """The fields of a `ChromaConnection` that the settings give."""
    access = {"tenant": settings.chroma_tenant, "database": settings.chroma_database}
    return access | ({"token": settings.chroma_token} if settings.chroma_token else {})


def reason_of(error: Exception) -> str:
    """Why an embedding failed."""
    return str(error) if isinstance(error, EmbeddingFailed) else f"{type(error).__name__}: {error}"


def reason_for_log(error: Exception, query: str) -> str:
    """The reason without a word of the query: the message of a custom embedder may repeat it."""
    reason = reason_of(error)
    words = [word for word in query.split() if len(word) >= _MIN_WORD]
    return describe(error) if any(word in reason for word in words) else reason


def to_passage(match: Match, by_collection: Mapping[str, list[RagArchiveConfig]]) -> RetrievedPassage:
    """A match as a passage of its archive."""
    return RetrievedPassage(
        archive=by_collection[match.collection or ""][0],
        id=match.id,
        text=match.text,
        metadata=match.metadata,
        distance=none_if_nan(match.distance),
        score=none_if_nan(match.score),
        embedding=match.embedding,
    )


def layer_filter(layer: str | None, where: Where | None) -> Where | None:
    """The filter of a search."""
    clauses: list[Mapping[str, JSON]] = [] if layer in (None, ALL_LAYERS) else [{"layer": layer}]
    clauses += [where] if where else []
    if len(clauses) > 1:
        return {"$and": clauses}
    return clauses[0] if clauses else None


def skipped_archives(
    errors: list[CollectionError], by_collection: Mapping[str, list[RagArchiveConfig]]
) -> list[SkippedArchive]:
    """The archives of collections that failed."""
    return [
        SkippedArchive(archive, skip_reason(error))
        for error in errors
        for archive in by_collection.get(error.collection, [])
    ]


def skip_reason(error: CollectionError) -> SkipReason:
    """Why an archive was skipped."""
    if error.code == "dimension_mismatch":
        return SkipReason.DIMENSION
    return _REASONS.get(error.status, SkipReason.FAILED)


_REASONS = {
    401: SkipReason.FORBIDDEN,
    403: SkipReason.FORBIDDEN,
    404: SkipReason.NOT_FOUND,
    503: SkipReason.UNREACHABLE,
    504: SkipReason.TOO_SLOW,
}
