"""Metadata of documents and of collections, and their validation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, cast

import msgspec

from ragstore.errors import InvalidMetadata
from ragstore.filters.values import MAX_INT, MIN_INT, RESERVED_PREFIXES, MetadataValue, Scalar
from ragstore.model.large_bodies.packed_metadata import NewPackedValue, PackedMetadata, PackedScalar, PackedValue
from ragstore.model.large_bodies.packed_text import PackedText

Metadata: TypeAlias = dict[str, MetadataValue]
"""Metadata of a stored document, without nulls."""

NewMetadataValue: TypeAlias = str | int | float | bool | list[str | int | float | bool] | None
"""A metadata value of a document to store. None means "absent"."""

_SCALAR: Final = msgspec.json.Decoder(Scalar)

CollectionMetadata: TypeAlias = dict[str, Scalar]
"""Metadata of a stored collection."""

MAX_VALUES: Final = 5_000
"""Maximum number of values in a document's metadata. Each item of a list counts.

Chroma writes them in one SQL statement for the keys and one for the items of lists, with 6 variables per value. SQLite
accepts 32,766 variables: with 5,460 keys, or 5,462 items, a document fails that write and every later write to its
collection (measured with 1.5.9; the text and the write token of an add take two of the 5,461 rows of keys).
"""

MAX_REQUEST_VALUES: Final = 500_000
"""Maximum number of metadata values of all documents in a request. Decoded, they take 60 MB, and texts
with an emoji 130 MB. Chroma writes 400,000 in
one request (measured with 1.5.9)."""

MAX_COLLECTION_KEYS: Final = 5_000
"""Maximum number of keys in a collection's metadata. Chroma rejects more than 5,461, for the same reason (measured with
1.5.9)."""


def count_values(metadata: PackedMetadata) -> int:
    """Number of values of validated metadata. Each item of a list counts."""
    return len(metadata) + sum(len(value) - 1 for value in metadata.values() if isinstance(value, list))


def validate_document_metadata(metadata: Mapping[str, NewPackedValue] | None, path: str) -> PackedMetadata:
    """Validate a document's metadata and remove nulls.

    Args:
        metadata: the metadata of the request.
        path: its JSON path, for errors.

    Returns:
        The metadata to store. A list of integers and floats becomes a list of floats.

    Raises:
        InvalidMetadata: a key or a value cannot be stored, or there are more than `MAX_VALUES`.
    """
    stored: dict[str, PackedValue] = {}
    if metadata and len(metadata) > MAX_VALUES:
        metadata = {key: value for key, value in metadata.items() if value is not None}
        _check_value_count(len(metadata), path)
    for key, value in (metadata or {}).items():
        if value is None:
            continue
        _check_key(key, path)
        if isinstance(value, list):
            stored[key] = _validated_list(value, f"{path}.{key}")
        else:
            _check_scalar(value, f"{path}.{key}")
            stored[key] = value
    _check_value_count(count_values(stored), path)
    return stored


def validate_metadata_patch(metadata: dict[str, NewMetadataValue], path: str) -> dict[str, MetadataValue | None]:
    """Validate new metadata of a stored document. Nulls remain, since they remove a key.

    Args:
        metadata: the metadata of the request.
        path: its JSON path, for errors.

    Raises:
        InvalidMetadata: a key or a value cannot be stored, or there are more than `MAX_VALUES`.
    """
    removed: dict[str, MetadataValue | None] = {}
    for key, value in metadata.items():
        if value is None:
            _check_key(key, path)
            removed[key] = None
    validated = validate_document_metadata(metadata, path)
    return {**removed, **cast("Metadata", validated)}  # no text is packed: none was


def value_count_error(count: int) -> str:
    """Why a document cannot have so many metadata values; empty if it can."""
    if count <= MAX_VALUES:
        return ""
    message = f"A document has at most {MAX_VALUES} metadata values, keys and list members together"
    return f"{message}; this one has {count}"


def validate_collection_metadata(metadata: dict[str, Scalar | None] | None, path: str) -> dict[str, Scalar | None]:
    """Validate a collection's metadata. Nulls remain, since a merge gives them a meaning.

    Args:
        metadata: the metadata of the request.
        path: its JSON path, for errors.

    Returns:
        The metadata; empty if None.

    Raises:
        InvalidMetadata: a key or a value cannot be stored, or there are more than `MAX_COLLECTION_KEYS`.
    """
    metadata = metadata or {}
    if len(metadata) > MAX_COLLECTION_KEYS:
        raise too_many_collection_keys(len(metadata), path)
    for key, value in metadata.items():
        _check_key(key, path)
        if value is not None:
            _check_scalar(value, f"{path}.{key}")
    return metadata


def without_nulls(metadata: dict[str, Scalar | None]) -> CollectionMetadata:
    """Metadata without nulls, which mean "absent"."""
    return {key: value for key, value in metadata.items() if value is not None}


def too_many_collection_keys(count: int, path: str) -> InvalidMetadata:
    """The error for a collection's metadata with more than `MAX_COLLECTION_KEYS` keys, for the caller to raise.

    Args:
        count: the number of keys.
        path: the metadata's JSON path.
    """
    return InvalidMetadata.at(path, f"A collection's metadata has at most {MAX_COLLECTION_KEYS} keys; this has {count}")


def _check_value_count(count: int, path: str) -> None:
    if message := value_count_error(count):
        raise InvalidMetadata.at(path, message)


def _check_key(key: str, path: str) -> None:
    if not key:
        raise InvalidMetadata.at(path, "A metadata key must not be empty")
    if key.startswith(RESERVED_PREFIXES):
        raise InvalidMetadata.at(f"{path}.{key}", "A metadata key must not begin with 'chroma:', '#' or '$'")


def _check_scalar(value: PackedScalar, path: str) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidMetadata.at(path, "A metadata number must be finite")
    elif isinstance(value, int) and not MIN_INT <= value <= MAX_INT:
        raise InvalidMetadata.at(path, "A metadata integer must fit in 64 bits")


def _validated_list(values: Sequence[PackedScalar], path: str) -> list[PackedScalar]:
    """A list whose items have one type. Integers and floats are one type, as in JSON."""
    if not values:
        raise InvalidMetadata.at(path, "A metadata list must not be empty")
    for index, value in enumerate(values):
        _check_scalar(value, f"{path}[{index}]")
    kinds = {str if isinstance(value, PackedText) else type(value) for value in values}
    if kinds == {int, float}:
        return [float(value) for value in values if isinstance(value, (int, float))]
    if len(kinds) > 1:
        raise InvalidMetadata.at(path, "A metadata list must hold values of one type")
    return list(values)


def items_as_json(value: MetadataValue | None) -> Iterator[str]:
    """A value as JSON, or each item of a list. Unlike the values, 1, 1.0 and true are different in a set.

    Args:
        value: the value of a stored document; None for none.
    """
    for item in value if isinstance(value, list) else () if value is None else (value,):
        yield msgspec.json.encode(item).decode()


def texts_of(values: Iterable[str]) -> list[str]:
    """Values as text, sorted. Numbers and booleans are JSON.

    Args:
        values: distinct values as JSON.
    """
    return sorted({_SCALAR.decode(value) if value.startswith('"') else value for value in values})


def scalars_of(values: Iterable[str]) -> list[Scalar]:
    """Values with their types: booleans, then numbers, then strings, each sorted.

    Args:
        values: distinct values as JSON.
    """

    def order(value: Scalar) -> tuple[int, float, str]:
        if isinstance(value, str):
            return 2, 0.0, value
        return int(not isinstance(value, bool)), value, ""

    return sorted(map(_SCALAR.decode, values), key=order)
