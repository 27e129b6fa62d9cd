"""Metadata whose texts are packed, and its size."""

from __future__ import annotations

from collections.abc import Mapping

from ragstore.model.metadata import PackedMetadata, PackedValue
from ragstore.model.packed_text import PackedText, pack_text


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
    """About the size of metadata in bytes: the characters of its texts, and eight bytes for each other value."""
    return sum(len(key) + _size_of_value(value) for key, value in metadata.items()) if metadata else 0


def _size_of_value(value: PackedValue | None) -> int:
    if isinstance(value, (str, PackedText)):
        return len(value)
    return sum(map(_size_of_value, value)) if isinstance(value, list) else 8
