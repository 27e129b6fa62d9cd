"""The distinct values of a metadata field."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from ragstore.model.documents import EVERYTHING
from ragstore.model.metadata import MetadataValue, Scalar
from ragstore.store.protocol import Store

PAGE_SIZE: Final = 5000
"""Number of documents per call to Chroma."""


async def distinct_values(store: Store, collection: str, field: str) -> list[str]:
    """The distinct values of a metadata field.

    Returns:
        The values as text, sorted. Numbers and booleans are JSON. Items of lists count one by one.

    Raises:
        CollectionNotFound: the collection does not exist.
    """
    values: set[str] = set()
    offset = 0
    while True:
        metadatas = await store.get_metadatas(collection, EVERYTHING, limit=PAGE_SIZE, offset=offset)
        values.update(_text(value) for metadata in metadatas for value in _items(metadata.get(field)))
        if len(metadatas) < PAGE_SIZE:
            return sorted(values)
        offset += PAGE_SIZE


def _items(value: MetadataValue | None) -> Iterable[Scalar]:
    if value is None:
        return ()
    return value if isinstance(value, list) else (value,)


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
