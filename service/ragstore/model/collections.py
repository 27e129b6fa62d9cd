"""Collections, and the status of the store that holds them."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from ragstore.model.metadata import CollectionMetadata

Distance: TypeAlias = Literal["cosine", "l2", "ip"]

DISTANCES: Final[dict[object, Distance]] = {"cosine": "cosine", "l2": "l2", "ip": "ip"}

SPACE: Final = "hnsw:space"
"""The metadata key with which older Chroma clients choose the distance function."""


class HnswParameters(msgspec.Struct, frozen=True, omit_defaults=True):
    """Parameters of Chroma's index. None is Chroma's default.

    Attributes:
        ef_construction: candidates that are compared for each new document.
        max_neighbors: neighbours of each document in the graph.
        ef_search: candidates that are compared in a query.
    """

    ef_construction: int | None = None
    max_neighbors: int | None = None
    ef_search: int | None = None


DEFAULT_HNSW: Final = HnswParameters()
"""Chroma's defaults."""


class Collection(msgspec.Struct, frozen=True):
    """A collection.

    Attributes:
        id: Chroma's id. It changes when a collection is deleted and created again.
        dimension: dimension of its embeddings; None until the first document is stored.
        distance: its distance function, which never changes.
        is_legacy: whether Chroma 0.5 or 0.6 created it, so that only its metadata key `hnsw:space` holds the distance.
        hnsw: parameters of its index that are not Chroma's defaults; they never change.
    """

    id: str
    name: str
    metadata: CollectionMetadata
    dimension: int | None
    distance: Distance
    is_legacy: bool = False
    hnsw: HnswParameters = DEFAULT_HNSW


CollectionCount: TypeAlias = int | Literal["deleted", "failed", "late"]
"""Number of documents of a collection; otherwise why there is none: the collection was deleted meanwhile, Chroma failed
to count it, or there was no time left."""


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
