"""Figures of a service's collections."""

from __future__ import annotations

from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table

from ragstore_client import Collection

FLOAT_BYTES: Final = 4
MAX_WIDTH: Final = 1000
"""Characters in a line if standard output is not a terminal: names are not wrapped there."""


class CollectionStats(msgspec.Struct, frozen=True):
    """Figures of a collection.

    Attributes:
        count: number of documents; None in a damaged collection, whose documents Chroma cannot count.
        dimension: dimension of its embeddings; None until the first document was added.
        distance: the distance function.
        embedding_bytes: size of its embeddings as float32; 0 for a damaged collection.
        metadata_keys: keys of its metadata, without their values.
    """

    name: str
    count: int | None
    dimension: int | None
    distance: str
    embedding_bytes: int
    metadata_keys: list[str]


class Stats(msgspec.Struct, frozen=True):
    """Figures of a service.

    Attributes:
        collections: its collections, by name.
        total_collections: number of collections.
        total_documents: number of documents in all undamaged ones.
        total_embedding_bytes: size of all their embeddings.
    """

    address: str
    collections: list[CollectionStats]
    total_collections: int
    total_documents: int
    total_embedding_bytes: int


def stats_of(address: str, collections: list[Collection]) -> Stats:
    """The figures of a service with these collections."""
    figures = [
        CollectionStats(
            found.name,
            found.count,
            found.dimension,
            found.distance,
            (found.count or 0) * (found.dimension or 0) * FLOAT_BYTES,
            sorted(found.metadata),
        )
        for found in collections
    ]
    return Stats(
        address,
        figures,
        len(figures),
        sum(each.count or 0 for each in figures),
        sum(each.embedding_bytes for each in figures),
    )


def show(stats: Stats) -> None:
    """Print the figures as a table."""
    table = Table(show_footer=True, box=None, pad_edge=False)
    table.add_column("COLLECTION", f"{stats.total_collections} collections", overflow="fold")
    table.add_column("DOCUMENTS", str(stats.total_documents), justify="right", no_wrap=True)
    table.add_column("DIMENSION", justify="right", no_wrap=True)
    table.add_column("DISTANCE", no_wrap=True)
    table.add_column("EMBEDDINGS", _mebibytes(stats.total_embedding_bytes), justify="right", no_wrap=True)
    for each in stats.collections:
        dimension = "-" if each.dimension is None else str(each.dimension)
        count = "damaged" if each.count is None else str(each.count)
        table.add_row(each.name, count, dimension, each.distance, _mebibytes(each.embedding_bytes))
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console = Console(markup=False, highlight=False, width=MAX_WIDTH)
    console.print(table)


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
