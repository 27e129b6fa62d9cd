"""Chroma's errors in ragstore's terms.

Chroma describes an error by a kind (the `error` of an HTTP response, the name of an exception) and a text. The texts
were measured with Chroma 1.5.9. None is passed on to a caller: ragstore's own messages say what the caller can act
on.
"""

from __future__ import annotations

import re
from typing import Final

from ragstore.chroma.quotas import quota_error
from ragstore.errors import (
    ChromaDiskFull,
    ChromaFailed,
    ChromaOutOfFiles,
    ChromaUnavailable,
    CollectionDamaged,
    CollectionExists,
    CollectionNotFound,
    DimensionMismatch,
    InvalidMetadata,
)
from ragstore.kit.errors import ServiceError
from ragstore.model.filters.where_document import ERRORS

TOO_LARGE_REGEX: Final = "(code: 1043)"
"""SQLite's code for a function that failed. Filters use only one, the regular expression, which may not compile."""

HALF_DELETED: Final = "Missing metadata segment"
"""Chroma's message for a collection that is being deleted."""

OUT_OF_FILES: Final = ("os error 24", "(code: 14)", "Too many open files")
"""Parts of Chroma's messages when its process has as many open files as it may have: of the operating system, and of
SQLite. Code 14 has the same cause unless Chroma's database was removed."""

DISK_FULL: Final = ("database or disk is full", "os error 28", "No space left on device")
"""Parts of Chroma's messages when its disk is full: of SQLite, and of the operating system."""

DAMAGED: Final = ("Failed to apply logs to the", "Error loading hnsw index")
"""Parts of Chroma's messages for a collection whose log it cannot apply, or whose index it cannot load."""

FOLDER_UNUSABLE: Final = "FolderUnusableError"
"""Kind of the error when embedded Chroma's folder is gone or read-only, or its disk is full."""

RECORD_GONE: Final = "Error finding id"
"""Part of Chroma's message when a record that a call selected is not in the index: it was deleted meanwhile."""

_DIMENSIONS: Final = re.compile(r"expecting embedding with dimension of (\d+), got (\d+)")


class StaleCollectionId(Exception):
    """No collection has this id. Its name may belong to another collection by now."""


class ConnectionLost(ChromaUnavailable):
    """The connection ended before the response, so the call may have been applied."""

    code = ChromaUnavailable.code


class RecordGone(ChromaFailed):
    """A record was deleted before or while it was read."""

    code = ChromaFailed.code


def translate_error(kind: str, text: str, *, collection_name: str = "") -> ServiceError | StaleCollectionId:
    """Translate an error of Chroma.

    Args:
        kind: Chroma's name of the error, such as `NotFoundError`.
        text: Chroma's message.
        collection_name: the collection's name, when it was addressed by name.

    Returns:
        The error to raise.
    """
    if quota := quota_error(text):
        return quota
    if text.endswith("already exists"):
        return CollectionExists(collection_name)
    if kind == "NotFoundError" or HALF_DELETED in text:
        return CollectionNotFound(collection_name) if collection_name else StaleCollectionId()
    if dimensions := _DIMENSIONS.search(text):
        return wrong_dimension(int(dimensions[1]), int(dimensions[2]))
    if text.startswith("Regex syntax"):
        return ERRORS.error("a regular expression is not valid: " + text.rpartition("error: ")[2])
    if TOO_LARGE_REGEX in text:
        return ERRORS.error("a regular expression is too large")
    if any(sign in text for sign in OUT_OF_FILES):
        return ChromaOutOfFiles(
            "Chroma cannot open another file: raise its limit of open files and restart it, or check its data folder"
        )
    # Before the next one: with a full disk, Chroma cannot apply its log either, and the collection is not damaged.
    if any(sign in text for sign in DISK_FULL):
        return ChromaDiskFull("The disk of Chroma's data is full")
    if any(sign in text for sign in DAMAGED):
        return CollectionDamaged()
    if RECORD_GONE in text:
        return RecordGone(f"Chroma failed ({kind})")
    if kind == FOLDER_UNUSABLE:
        return ChromaUnavailable(text)
    if "hnsw parameters" in text:
        return InvalidMetadata.at("$.metadata", "An 'hnsw:' key has a value that Chroma does not take")
    return ChromaFailed(f"Chroma failed ({kind})")


def wrong_dimension(expected: int, got: int, path: str = "") -> DimensionMismatch:
    """The error for an embedding of another dimension than its collection's.

    Args:
        expected: the collection's dimension.
        got: the embedding's.
        path: JSON path of the embedding, where it is known.

    Returns:
        The error, for the caller to raise.
    """
    message = f"Embedding dimension {got} does not match the collection's dimension {expected}"
    return DimensionMismatch.at(path, message) if path else DimensionMismatch(message)
