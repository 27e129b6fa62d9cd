"""Collections, and the status of the store that holds them."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from ragstore.model.metadata import CollectionMetadata

Distance: TypeAlias = Literal["cosine", "l2", "ip"]

DISTANCES: Final[dict[object, Distance]] = {"cosine": "cosine", "l2": "l2", "ip": "ip"}

SPACE: Final = "hnsw:space"
"""The metadata key with which older Chroma clients choose the distance function."""


class HnswParameters(msgspec.Struct, frozen=True, omit_defaults=True):
    """Parameters of Chroma's index. Those that are left out have Chroma's default."""

    ef_construction: Annotated[
        Annotated[int, msgspec.Meta(ge=10, le=2000)] | None,
        msgspec.Meta(description="Candidates that are compared for each new document. Chroma's default is 100."),
    ] = None
    max_neighbors: Annotated[
        Annotated[int, msgspec.Meta(ge=2, le=256)] | None,
        msgspec.Meta(description="Neighbours of each document in the graph. Chroma's default is 16."),
    ] = None
    ef_search: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None,
        msgspec.Meta(description="Candidates that are compared in a query. Chroma's default is 100."),
    ] = None


DEFAULT_HNSW: Final = HnswParameters()
"""Chroma's defaults."""


class Collection(msgspec.Struct, frozen=True):
    """A collection.

    Attributes:
        id: Chroma's id. It changes when a collection is deleted and created again.
        name: its name.
        metadata: its metadata.
        dimension: dimension of its embeddings; None until the first document is stored.
        distance: its distance function, which never changes.
        is_legacy: whether Chroma 0.5 or 0.6 created it, so that only its metadata key `hnsw:space` holds the distance.
    """

    id: str
    name: str
    metadata: CollectionMetadata
    dimension: int | None
    distance: Distance
    is_legacy: bool = False


class StoreStatus(msgspec.Struct, frozen=True):
    """The status of a store.

    Attributes:
        kind: `embedded` or `remote`.
        chroma_version: version of Chroma.
        collections_count: number of collections; None if they were not counted.
        storage_bytes: size on disk, with embedded Chroma.
    """

    kind: str
    chroma_version: str
    collections_count: int | None
    storage_bytes: int | None = None
