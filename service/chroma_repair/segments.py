"""The vector indexes that Chroma's database lists; Chroma calls them segments."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

TOPIC: Final = "persistent://default/default/"
"""Prefix of a collection's id in the log."""

ADD: Final = 0
"""The log's code for an add: a record whose id must be new."""

DELETE: Final = 3
"""The log's code for a deletion."""


class NotRepairable(Exception):
    """An embedding cannot be found. The text says why."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A vector index.

    Attributes:
        index: its id, which is the name of its folder.
        rows: id of the segment that holds the collection's texts and metadata.
        saved: sequence number of the last log entry in the saved index; 0 when it was never saved.
        applied: sequence number of the last log entry in texts and metadata.
        collection_id: Chroma's id of the collection.
        name: the collection's name.
        schema: the collection's schema, as JSON.
        dimension: dimension of the embeddings.
        database: Chroma database.
        tenant: Chroma tenant.
    """

    index: str
    rows: str
    saved: int
    applied: int
    collection_id: str
    name: str
    schema: str | None
    dimension: int
    database: str
    tenant: str

    @property
    def topic(self) -> str:
        """The collection's name in the log."""
        return TOPIC + self.collection_id


_SEGMENTS: Final = """
    SELECT v.id, m.id, coalesce(s.seq_id, 0), coalesce(a.seq_id, 0),
        c.id, c.name, c.schema_str, c.dimension, d.name, d.tenant_id
    FROM segments v
    JOIN segments m ON m.collection = v.collection AND m.scope = 'METADATA'
    JOIN collections c ON c.id = v.collection
    JOIN databases d ON d.id = c.database_id
    LEFT JOIN max_seq_id s ON s.segment_id = v.id
    LEFT JOIN max_seq_id a ON a.segment_id = m.id
    WHERE v.type = 'urn:chroma:segment/vector/hnsw-local-persisted' AND c.dimension IS NOT NULL
"""


def segments(database: sqlite3.Connection) -> Iterator[Segment]:
    """The indexes of all collections that have held documents.

    Args:
        database: Chroma's database.

    Yields:
        One index after the other.
    """
    for row in database.execute(_SEGMENTS).fetchall():
        yield Segment(*row)


@dataclass(frozen=True, slots=True)
class IndexConfiguration:
    """The parameters of an index that its file layout depends on.

    Attributes:
        space: the distance function.
        max_neighbors: maximum number of links of an element above the lowest level.
    """

    space: str
    max_neighbors: int


def configuration(segment: Segment) -> IndexConfiguration:
    """Read the parameters of an index from its collection's schema.

    Args:
        segment: the index.

    Returns:
        Its parameters.

    Raises:
        NotRepairable: the schema is not one of Chroma 1.5.
    """
    try:
        schema = json.loads(segment.schema or "")
        config = schema["keys"]["#embedding"]["float_list"]["vector_index"]["config"]
        space, max_neighbors = config["space"], config["hnsw"]["max_neighbors"]
    except (ValueError, LookupError, TypeError):
        raise NotRepairable("The configuration of its index cannot be read") from None
    if not isinstance(space, str) or not isinstance(max_neighbors, int):
        raise NotRepairable("The configuration of its index cannot be read")
    return IndexConfiguration(space, max_neighbors)
