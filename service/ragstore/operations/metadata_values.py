"""The distinct values of a metadata field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from ragstore.model.documents import EVERYTHING
from ragstore.model.metadata import MetadataValue, Scalar
from ragstore.store.protocol import Store

PAGE: Final = 5000
"""Documents read at a time."""


async def distinct_values(store: Store, collection: str, field: str) -> list[str]:
    """Read the distinct values of a metadata field.

    Args:
        store: where the collection is.
        collection: its name.
        field: the metadata field.

    Returns:
        The values as text, sorted. Numbers and booleans are written as in JSON; members of lists count one by one.

    Raises:
        CollectionNotFound: there is no such collection.
    """
    values: set[str] = set()
    offset = 0
    while True:
        metadatas = await store.get_metadatas(collection, EVERYTHING, limit=PAGE, offset=offset)
        values.update(_text(value) for metadata in metadatas for value in _members(metadata.get(field)))
        if len(metadatas) < PAGE:
            return sorted(values)
        offset += PAGE


def _members(value: MetadataValue | None) -> Iterable[Scalar]:
    if value is None:
        return ()
    return value if isinstance(value, list) else (value,)


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
