"""Maps of collections: a sample of the documents, placed by their embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta, Struct

from ragstore.filters.values import MetadataValue
from ragstore.model.filters.condition import NO_CONDITION, Condition

MAX_POINTS: Final = 10_000
"""Maximum number of points of a map."""

MAX_NUMBERS: Final = 8_000_000
"""Maximum numbers of the embeddings of a map. They take 64 MB as float64, and their neighbours 10 s of one core."""

MAX_NEIGHBOURS: Final = 15
"""Maximum number of neighbours of a point."""

BLOCKS: Final = 10
"""Number of blocks that a sample is read in. A page at an offset takes Chroma 130 ms in a collection of 100,000, so
2,000 documents in 10 blocks take half as long as in 20 (1.5.9)."""

MAX_COLOR_TEXT: Final = 200
"""Maximum number of characters of a text that colours a point. The rest is cut."""

MAX_COLOR_ITEMS: Final = 20
"""Maximum number of items of a list that colours a point. The rest is cut."""


@dataclass(frozen=True, slots=True)
class MapParameters:
    """The sample of a map, and its colours.

    Attributes:
        points: maximum number of points.
        condition: the documents to choose from.
        color: the metadata field whose values colour the points; None for none.
    """

    points: int
    condition: Condition = NO_CONDITION
    color: str | None = None


class CollectionMap(Struct, frozen=True):
    """A map: a sample of the documents, evenly over the collection, each with its nearest neighbours in the sample."""

    ids: Annotated[list[str], Meta(description="The ids of the documents, in insertion order: the points of the map.")]
    x: Annotated[list[float], Meta(description="For each point, the first principal component of the embeddings.")]
    y: Annotated[list[float], Meta(description="For each point, the second principal component.")]
    neighbours: Annotated[
        list[list[int]],
        Meta(
            description="For each point, the indexes in `ids` of its nearest other points, nearest first. They are "
            "exact: 15, or all others if there are fewer."
        ),
    ]
    distances: Annotated[
        list[list[float]],
        Meta(description="For each point, the distances of these neighbours by the collection's distance function."),
    ]
    color: Annotated[
        list[MetadataValue | None] | None,
        Meta(
            description="For each point, the value of the field that the request names, null if the document does not "
            "have it. Texts end after 200 characters, lists after 20 items. Null if the request names none."
        ),
    ]
    total: Annotated[int, Meta(description="Exact number of the documents that the map was sampled from.", ge=0)]
    as_of: Annotated[str, Meta(description="Time in UTC at which the documents were read (RFC 3339).")]

    @property
    def size(self) -> int:
        """About the number of bytes that it takes in memory."""
        # A float takes 32 bytes with its reference, an index 8 or more.
        per_point = 200 + (32 + 36) * MAX_NEIGHBOURS
        texts = sum(map(len, self.ids)) + sum(map(_size_of_color, self.color or ()))
        return per_point * len(self.ids) + texts


def blocks_of(total: int, size: int) -> Iterator[range]:
    """Blocks of a sample that are spread evenly over documents. The first documents alone would be biased.

    Args:
        total: number of documents.
        size: number of documents of the sample, at most `total`.

    Yields:
        The offsets of each block. Blocks do not overlap.
    """
    blocks = min(BLOCKS, size)
    for index in range(blocks):
        begin, end = size * index // blocks, size * (index + 1) // blocks
        skipped = (total - size) * (2 * index + 1) // (2 * blocks)
        yield range(skipped + begin, skipped + end)


def color_of(value: MetadataValue | None) -> MetadataValue | None:
    """A metadata value as it colours a point: cut if it is long."""
    if isinstance(value, str):
        return value[:MAX_COLOR_TEXT]
    if isinstance(value, list):
        return [item[:MAX_COLOR_TEXT] if isinstance(item, str) else item for item in value[:MAX_COLOR_ITEMS]]
    return value


def _size_of_color(value: MetadataValue | None) -> int:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return sum(map(_size_of_color, value)) + 100
    return 100 + (len(value) if isinstance(value, str) else 0)
