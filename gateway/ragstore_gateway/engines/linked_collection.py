"""Collections that others fill: what the gateway knows of one, and how its records become passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, runtime_checkable

from ragstore_client import Where
from ragstore_gateway.engines.engine_collection import EngineCollection, MetadataValue, Passage, Record
from ragstore_gateway.engines.store_parameters import LinkableParameters
from ragstore_gateway.errors import CollectionReadOnly

_SCALARS: Final = (str, int, float, bool)
"""Not a union: that takes three times as long to check (CPython 3.11)."""


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """A collection, as its engine describes it.

    Attributes:
        dimension: the dimension of its vectors; None as long as it has none.
        model: the model of its vectors; empty if that is not recorded.
    """

    dimension: int | None
    model: str = ""


@runtime_checkable
class LinkedCollection(EngineCollection, Protocol):
    """A collection that others fill. Its writes raise `CollectionReadOnly`, unless it is shared."""

    async def describe(self) -> CollectionInfo | None:
        """Describe the collection.

        Returns:
            Its description; None if it does not exist.

        Raises:
            StoreUnavailable: the engine failed.
        """


class ReadOnlyCollection:
    """The writes of a collection that others fill."""

    async def create(self) -> None:
        """Fail: the collection is created by others."""
        raise read_only()

    async def write(self, records: Sequence[Record]) -> None:
        """Fail: the collection is filled by others."""
        raise read_only()

    async def delete(self, where: Where) -> int:
        """Fail: the records belong to others."""
        raise read_only()

    async def delete_ids(self, ids: Sequence[str]) -> None:
        """Fail: the records belong to others."""
        raise read_only()

    async def drop(self) -> None:
        """Do nothing: the collection belongs to others."""


def linked_passage(passage: Passage, parameters: LinkableParameters) -> Passage:
    """A record of others as a passage: its text, title and URL are where a base's own chunks have them.

    Args:
        passage: the record.
        parameters: the names of its fields.
    """
    metadata = dict(passage.metadata)
    text = str(metadata.pop(parameters.text_field, "")) if parameters.text_field else passage.text
    for name, field in (("title", parameters.title_field), ("url", parameters.url_field)):
        if field and field != name and field in metadata:
            metadata[name] = metadata[field]
    return replace(passage, text=text, metadata=metadata)


def scalars(metadata: Mapping[str, object]) -> dict[str, MetadataValue]:
    """Metadata without lists and objects, which only records of others have: one of them must not fail the search.

    Args:
        metadata: the metadata of a record.
    """
    return {key: value for key, value in metadata.items() if isinstance(value, _SCALARS)}


def read_only() -> CollectionReadOnly:
    """The error of a write to a collection that others fill."""
    return CollectionReadOnly("The knowledge base is linked to a collection that others fill: it takes no documents")
