"""A collection whose documents Chroma could count."""

from __future__ import annotations

import msgspec

from ragstore_client import Distance, StoredMetadata


class CountedCollection(msgspec.Struct, frozen=True):
    """A collection as the service describes it, and as the header of an export contains it.

    Attributes:
        name: its name.
        metadata: its metadata.
        count: number of documents.
        dimension: dimension of the embeddings; None until the first document was added.
        distance: the distance function.
    """

    name: str
    metadata: StoredMetadata
    count: int
    dimension: int | None
    distance: Distance
