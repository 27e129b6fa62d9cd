"""A collection whose documents could be counted."""

from __future__ import annotations

import msgspec

from ragstore.model.collections import Distance
from ragstore.model.metadata import CollectionMetadata


class CountedCollection(msgspec.Struct, frozen=True):
    """A collection as the service describes it, and as the header of an export has it.

    Attributes:
        name: its name.
        metadata: its metadata.
        count: documents in it.
        dimension: of its embeddings; None until the first document came.
        distance: how they are compared.
    """

    name: str
    metadata: CollectionMetadata
    count: int
    dimension: int | None
    distance: Distance
