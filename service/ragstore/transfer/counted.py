"""A collection whose documents Chroma could count."""

from __future__ import annotations

from typing import Final, Self

import msgspec

from ragstore_client import Distance, StoredMetadata

SPACE: Final = "hnsw:space"


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

    def with_actual_distance(self) -> Self:
        """The collection of an export, with the distance that Chroma computed.

        ragstore 0.1 exported collections of Chroma 0.5 and 0.6 as `l2`, next to metadata that names the
        distance. The service accepts no other collection whose metadata contradicts its distance.
        """
        named = self.metadata.get(SPACE)
        if self.distance == "l2" and named in ("cosine", "ip"):
            return msgspec.structs.replace(self, distance=named)
        return self
