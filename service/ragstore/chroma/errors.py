"""What Chroma's errors mean for a caller.

Chroma tells its errors by a kind (the `error` of an HTTP answer, the name of an exception) and a text. The texts were
measured with Chroma 1.5.9. None is passed on: what a caller can act on is said in ragstore's words.
"""

from __future__ import annotations

import re
from typing import Final

from ragstore.chroma.backend import StaleCollectionId
from ragstore.errors import ChromaFailed, CollectionExists, CollectionNotFound, DimensionMismatch, InvalidMetadata
from ragstore.kit.errors import ServiceError
from ragstore.model.filters.where_document import ERRORS

TOO_LARGE_REGEX: Final = "(code: 1043)"
"""SQLite's code for a function that failed. Filters call one only: the regular expression, which may not compile."""

HALF_DELETED: Final = "Missing metadata segment"
"""What Chroma says of a collection while it is deleting it."""

_DIMENSIONS: Final = re.compile(r"expecting embedding with dimension of (\d+), got (\d+)")


def meaning(kind: str, text: str, *, collection: str = "") -> ServiceError | StaleCollectionId:
    """Translate an error of Chroma's.

    Args:
        kind: Chroma's name of the error, such as `NotFoundError`.
        text: what Chroma said.
        collection: the collection's name, when it was asked for by name.

    Returns:
        The error to raise.
    """
    if text.endswith("already exists"):
        return CollectionExists(collection)
    if kind == "NotFoundError" or HALF_DELETED in text:
        return CollectionNotFound(collection) if collection else StaleCollectionId()
    if dimensions := _DIMENSIONS.search(text):
        return wrong_dimension(int(dimensions[1]), int(dimensions[2]))
    if text.startswith("Regex syntax"):
        return ERRORS.error("a regular expression is not valid: " + text.rpartition("error: ")[2])
    if TOO_LARGE_REGEX in text:
        return ERRORS.error("a regular expression is too large")
    if "hnsw parameters" in text:
        return InvalidMetadata.at("$.metadata", "An 'hnsw:' key has a value that Chroma does not take")
    return ChromaFailed(f"Chroma failed ({kind})")


def wrong_dimension(expected: int, got: int, path: str = "") -> DimensionMismatch:
    """The error for an embedding that does not fit its collection.

    Args:
        expected: the collection's dimension.
        got: the embedding's.
        path: JSON path of the embedding, where it is known.

    Returns:
        The error, for the caller to raise.
    """
    message = f"Embedding dimension {got} does not match the collection's dimension {expected}"
    return DimensionMismatch.at(path, message) if path else DimensionMismatch(message)
