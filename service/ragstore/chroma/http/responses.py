"""What a Chroma server answers, and whether it is all that was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ragstore.errors import ChromaFailed
from ragstore.model.metadata import CollectionMetadata, Metadata

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What decoding an answer raises when it is no JSON, or not the JSON that was expected."""


class ChromaProblem(msgspec.Struct):
    """An error as Chroma tells it."""

    error: str = "unknown"
    message: str = ""


class Preflight(msgspec.Struct):
    """What Chroma says of its limits."""

    max_batch_size: int
    supports_base64_encoding: bool = False


class CollectionAnswer(msgspec.Struct):
    """A collection as Chroma tells it."""

    id: str
    name: str
    configuration_json: dict[str, object]
    metadata: CollectionMetadata | None = None
    dimension: int | None = None


class RecordsAnswer(msgspec.Struct):
    """The answer to a get."""

    ids: list[str]
    documents: list[str | None] | None = None
    metadatas: list[Metadata | None] | None = None
    embeddings: list[list[float]] | None = None


class MarksAnswer(msgspec.Struct):
    """The answer to a get of uris."""

    ids: list[str]
    uris: list[str | None]


class NeighboursAnswer(msgspec.Struct):
    """The answer to a query of m vectors."""

    ids: list[list[str]]
    documents: list[list[str | None]] | None = None
    metadatas: list[list[Metadata | None]] | None = None
    embeddings: list[list[list[float]]] | None = None
    distances: list[list[float | None]] | None = None


class Nothing(msgspec.Struct):
    """An answer that says nothing more."""


def require_columns(answer: RecordsAnswer | MarksAnswer, include: Sequence[str]) -> None:
    """Make sure that every column that was asked for came, and as long as the ids are.

    An answer that was damaged on its way may still be JSON, with a column less.

    Args:
        answer: what Chroma answered.
        include: names of the columns that were asked for.

    Raises:
        ChromaFailed: one did not come.
    """
    for name in include:
        column: list[object] | None = getattr(answer, name)
        if column is None or len(column) != len(answer.ids):
            raise ChromaFailed("Chroma's answer is not whole")


def require_neighbours(answer: NeighboursAnswer, queries: int, include: Sequence[str]) -> None:
    """Make sure that every query was answered, with every column that was asked for.

    Args:
        answer: what Chroma answered.
        queries: how many vectors were asked about.
        include: names of the columns that were asked for.

    Raises:
        ChromaFailed: something did not come.
    """
    lengths = [len(ids) for ids in answer.ids]
    for name in include:
        columns: list[list[object]] | None = getattr(answer, name)
        if columns is None or [len(column) for column in columns] != lengths:
            raise ChromaFailed("Chroma's answer is not whole")
    if len(lengths) != queries:
        raise ChromaFailed("Chroma's answer is not whole")


def bare_ids(answer: NeighboursAnswer) -> set[str]:
    """Ids that came with neither text nor metadata.

    Others may have written such records. Most often, though, they are records that were deleted after Chroma's server
    had found them and before it read what they hold (measured with 1.5.9: 11 of 4,578 queries beside deletions).

    Args:
        answer: what Chroma answered.

    Returns:
        Their ids; none when not both columns were asked for.
    """
    if answer.documents is None or answer.metadatas is None:
        return set()
    return {
        document_id
        for ids, texts, metadatas in zip(answer.ids, answer.documents, answer.metadatas, strict=True)
        for document_id, text, metadata in zip(ids, texts, metadatas, strict=True)
        if text is None and metadata is None
    }
