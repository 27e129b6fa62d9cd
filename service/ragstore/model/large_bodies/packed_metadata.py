"""Metadata whose texts are packed, and its size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, cast

from ragstore.filters.values import MetadataValue
from ragstore.model.large_bodies.packed_text import PackedText, Text, pack_text

PackedScalar: TypeAlias = str | int | float | bool | PackedText

PackedValue: TypeAlias = MetadataValue | PackedText | list[PackedScalar]

NewPackedValue: TypeAlias = PackedValue | None

PackedMetadata: TypeAlias = Mapping[str, PackedValue]
"""Metadata of a document to store, without nulls. Its texts may be packed."""

VALUE_BYTES: Final = 16
"""Counted for each value and its key."""

_TEXTS: Final = frozenset({str, PackedText})


def pack_metadata(metadata: PackedMetadata) -> PackedMetadata:
    """Pack the texts of metadata that become smaller."""
    return {key: _packed_value(value) for key, value in metadata.items()}


def _packed_value(value: PackedValue) -> PackedValue:
    if isinstance(value, str):
        return pack_text(value)
    if isinstance(value, list) and isinstance(value[0], str):
        return [pack_text(each) if isinstance(each, str) else each for each in value]
    return value


def size_of_metadata(metadata: Mapping[str, PackedValue | None] | None) -> int:
    """About the size of metadata in bytes: the characters of its texts, and 16 bytes for each value.

    It takes 25 ms for 500,000 values, the maximum of a request.
    """
    if not metadata:
        return 0
    # `type` takes half the time of `isinstance`.
    texts = cast("list[Text]", [value for value in metadata.values() if type(value) in _TEXTS])
    lists = cast("list[list[PackedScalar]]", [value for value in metadata.values() if type(value) is list])
    for members in lists:
        texts += cast("list[Text]", [each for each in members if type(each) in _TEXTS])
    return VALUE_BYTES * (len(metadata) + sum(map(len, lists))) + sum(map(len, texts))
