"""The rules for metadata, of documents and of collections."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from ragstore.errors import InvalidMetadata

Scalar: TypeAlias = str | int | float | bool
"""A metadata value, or a member of a list of them."""

MetadataValue: TypeAlias = str | int | float | bool | list[str | int | float | bool]
"""What a stored document's metadata may hold under a key; a list holds values of one type."""

Metadata: TypeAlias = dict[str, MetadataValue]
"""A stored document's metadata: no nulls, lists of one type."""

GivenValue: TypeAlias = str | int | float | bool | list[str | int | float | bool] | None
"""A metadata value as a caller may send it."""

CollectionMetadata: TypeAlias = dict[str, Scalar]
"""A stored collection's metadata."""

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_VALUES: Final = 5_000
"""Values in a document's metadata; a list has as many as it has members.

Chroma writes them in one SQL statement for the keys and one for the members of lists, with 6 variables each, of which
SQLite takes 32,766: with 5,460 keys, or 5,462 members, a document fails that write and every later write to its
collection (measured with 1.5.9; the text and the mark of an add take two of the 5,461 rows of keys).
"""

MAX_COLLECTION_KEYS: Final = 5_000
"""Keys in a collection's metadata. Chroma refuses more than 5,461, for the same reason (measured with 1.5.9)."""

RESERVED_PREFIXES: Final = ("chroma:", "#", "$")
"""Chroma keeps `chroma:` for itself and refuses or misreads the others (measured with 1.5.9)."""


def is_reserved(key: str) -> bool:
    """Whether a metadata key cannot be stored.

    Args:
        key: the key.

    Returns:
        True for the empty key and for those with a reserved prefix.
    """
    return not key or key.startswith(RESERVED_PREFIXES)


def checked_document_metadata(given: dict[str, GivenValue] | None, path: str) -> Metadata:
    """Check a document's metadata and drop what is null.

    Args:
        given: the metadata as sent.
        path: its JSON path, for errors.

    Returns:
        The metadata to store. Lists of whole and other numbers become lists of floats.

    Raises:
        InvalidMetadata: a key or a value cannot be stored, or there are more than `MAX_VALUES`.
    """
    stored: Metadata = {}
    for key, value in (given or {}).items():
        if value is None:
            continue
        _check_key(key, path)
        if isinstance(value, list):
            stored[key] = _checked_list(value, f"{path}.{key}")
        else:
            _check_scalar(value, f"{path}.{key}")
            stored[key] = value
    _check_number_of_values(stored, path)
    return stored


def checked_collection_metadata(given: dict[str, Scalar | None] | None, path: str) -> dict[str, Scalar | None]:
    """Check a collection's metadata; nulls stay, for the caller to read.

    Args:
        given: the metadata as sent.
        path: its JSON path, for errors.

    Returns:
        The same metadata.

    Raises:
        InvalidMetadata: a key or a value cannot be stored, or there are more than `MAX_COLLECTION_KEYS`.
    """
    given = given or {}
    if len(given) > MAX_COLLECTION_KEYS:
        raise too_many_collection_keys(len(given), path)
    for key, value in given.items():
        _check_key(key, path)
        if value is not None:
            _check_scalar(value, f"{path}.{key}")
    return given


def without_nulls(metadata: dict[str, Scalar | None]) -> CollectionMetadata:
    """Metadata less its nulls, which mean "absent"."""
    return {key: value for key, value in metadata.items() if value is not None}


def too_many_collection_keys(count: int, path: str) -> InvalidMetadata:
    """The error for a collection's metadata that has more than `MAX_COLLECTION_KEYS`.

    Args:
        count: how many keys it has.
        path: its JSON path.

    Returns:
        The error, for the caller to raise.
    """
    return InvalidMetadata.at(path, f"A collection's metadata has at most {MAX_COLLECTION_KEYS} keys; this has {count}")


def _check_number_of_values(metadata: Metadata, path: str) -> None:
    count = len(metadata)
    for value in metadata.values():
        if isinstance(value, list):
            count += len(value) - 1
    if count > MAX_VALUES:
        message = f"A document has at most {MAX_VALUES} metadata values, keys and list members together"
        raise InvalidMetadata.at(path, f"{message}; this one has {count}")


def _check_key(key: str, path: str) -> None:
    if not key:
        raise InvalidMetadata.at(path, "A metadata key must not be empty")
    if key.startswith(RESERVED_PREFIXES):
        raise InvalidMetadata.at(f"{path}.{key}", "A metadata key must not begin with 'chroma:', '#' or '$'")


def _check_scalar(value: Scalar, path: str) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidMetadata.at(path, "A metadata number must be finite")
    elif isinstance(value, int) and not MIN_INT <= value <= MAX_INT:
        raise InvalidMetadata.at(path, "A metadata integer must fit in 64 bits")


def _checked_list(values: list[Scalar], path: str) -> list[Scalar]:
    """A list whose members are of one type; numbers count as one, as JSON knows only one."""
    if not values:
        raise InvalidMetadata.at(path, "A metadata list must not be empty")
    for position, value in enumerate(values):
        _check_scalar(value, f"{path}[{position}]")
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return [float(value) for value in values]
    if len(kinds) > 1:
        raise InvalidMetadata.at(path, "A metadata list must hold values of one type")
    return values
