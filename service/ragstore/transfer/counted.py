"""A collection whose documents Chroma could count."""

from __future__ import annotations

from typing import Final, Self

import msgspec

from ragstore_client import Distance, HnswParameters, StoredMetadata

SPACE: Final = "hnsw:space"


class CountedCollection(msgspec.Struct, frozen=True, omit_defaults=True):
    """A collection as the service describes it, and as the header of an export contains it.

    Attributes:
        count: number of documents.
        dimension: dimension of the embeddings; None until the first document was added.
        distance: the distance function.
        hnsw: parameters of Chroma's index; None if all have Chroma's default. An older ragstore ignores them.
    """

    name: str
    metadata: StoredMetadata
    count: int
    dimension: int | None
    distance: Distance
    hnsw: HnswParameters | None = None

    def with_hnsw(self, **parameters: int | None) -> Self:
        """The collection with other parameters of its index. None leaves a parameter as it is."""
        given = {name: value for name, value in parameters.items() if value is not None}
        if not given:
            return self
        return msgspec.structs.replace(self, hnsw=msgspec.structs.replace(self.hnsw or HnswParameters(), **given))

    def with_actual_distance(self) -> Self:
        """The collection of an export, with the distance that Chroma computed.

        ragstore 0.1 exported collections of Chroma 0.5 and 0.6 as `l2`, next to metadata that names the
        distance. The service accepts no other collection whose metadata contradicts its distance.
        """
        named = self.metadata.get(SPACE)
        if self.distance == "l2" and named in ("cosine", "ip"):
            return msgspec.structs.replace(self, distance=named)
        return self
