"""Metadata values: their types, and what no key and no value may be."""

from __future__ import annotations

from typing import Final, TypeAlias

Scalar: TypeAlias = str | int | float | bool
"""A metadata value, or an item of a list."""

MetadataValue: TypeAlias = str | int | float | bool | list[str | int | float | bool]
"""A metadata value of a stored document. The items of a list have one type."""

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1

RESERVED_PREFIXES: Final = ("chroma:", "#", "$")
"""Chroma reserves `chroma:`, and rejects or misreads the others (measured with 1.5.9)."""


def is_reserved(key: str) -> bool:
    """Whether a metadata key cannot be stored: it is empty or has a reserved prefix."""
    return not key or key.startswith(RESERVED_PREFIXES)
