"""The indexes that Chroma's database knows of."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

import msgspec

TOPIC: Final = "persistent://default/default/"
"""Stands before a collection's id in the log."""


DELETE: Final = 3
"""What the log calls a deletion."""


class NotRepairable(Exception):
    """An embedding cannot be found. The text says why."""


class Segment(msgspec.Struct, frozen=True):
    """An index.

    Attributes:
        index: its id, which is the name of its folder.
        rows: id of the segment that has the collection's texts and metadata.
        saved: last entry of the log that the index was saved with; 0 for none.
        applied: last entry of the log that texts and metadata are of.
        collection_id: Chroma's id of the collection.
        name: the collection's name.
        schema: how the collection is made, as JSON.
        dimension: how many numbers an embedding has.
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
        """What the log calls the collection."""
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
    """The indexes of all collections that have had documents.

    Args:
        database: Chroma's.

    Yields:
        One after the other.
    """
    for row in database.execute(_SEGMENTS).fetchall():
        yield Segment(*row)


class Hnsw(msgspec.Struct, frozen=True):
    """What of an index's parameters matters here.

    Attributes:
        max_neighbors: how many links an element may have above the lowest level.
    """

    max_neighbors: int


class IndexConfiguration(msgspec.Struct, frozen=True):
    """How an index is made.

    Attributes:
        space: the distance.
        hnsw: its parameters.
    """

    space: str
    hnsw: Hnsw


class _VectorIndex(msgspec.Struct):
    config: IndexConfiguration


class _Floats(msgspec.Struct):
    vector_index: _VectorIndex


class _Embedding(msgspec.Struct):
    float_list: _Floats


class _Keys(msgspec.Struct):
    embedding: _Embedding = msgspec.field(name="#embedding")


class _Schema(msgspec.Struct):
    """The part of a collection's schema, as Chroma writes it, that tells of its index."""

    keys: _Keys


def configuration(segment: Segment) -> IndexConfiguration:
    """How an index is made.

    Args:
        segment: the index.

    Returns:
        Its configuration.

    Raises:
        NotRepairable: the schema is not one of Chroma 1.5.
    """
    try:
        schema = msgspec.json.decode(segment.schema or "", type=_Schema)
    except msgspec.MsgspecError:
        raise NotRepairable("How its index is made cannot be read") from None
    return schema.keys.embedding.float_list.vector_index.config
