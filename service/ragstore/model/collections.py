"""Collections and the state of the Chroma that holds them."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from ragstore.model.metadata import CollectionMetadata

Distance: TypeAlias = Literal["cosine", "l2", "ip"]


DISTANCES: Final[dict[object, Distance]] = {"cosine": "cosine", "l2": "l2", "ip": "ip"}


SPACE: Final = "hnsw:space"
"""The metadata key that older Chroma clients choose the distance with."""


class Collection(msgspec.Struct, frozen=True):
    """A collection as it stands.

    Attributes:
        id: Chroma's id of it; another one after it was deleted and created again.
        name: its name.
        metadata: its metadata.
        dimension: of its embeddings; None until the first document came.
        distance: how embeddings are compared; never changes.
    """

    id: str
    name: str
    metadata: CollectionMetadata
    dimension: int | None
    distance: Distance


class StoreStatus(msgspec.Struct, frozen=True):
    """What a store says of itself.

    Attributes:
        kind: `embedded` or `remote`.
        chroma_version: version of the Chroma that answered.
        collections_count: collections it holds.
        storage_bytes: bytes on disk, where the store can see them.
    """

    kind: str
    chroma_version: str
    collections_count: int
    storage_bytes: int | None = None
