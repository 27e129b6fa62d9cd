"""What a service holds, collection by collection."""

from __future__ import annotations

import msgspec
from rich.console import Console
from rich.table import Table

from ragstore.api.schemas import Collection
from ragstore.model.collections import Distance

FLOAT_BYTES = 4
WIDEST = 1000
"""Characters in a line where standard output is no terminal: names are whole there."""


class CollectionStats(msgspec.Struct, frozen=True):
    """Figures of a collection.

    Attributes:
        name: its name.
        count: documents in it; None in a damaged collection, whose documents Chroma cannot count.
        dimension: of its embeddings; None until the first document came.
        distance: how they are compared.
        embedding_bytes: what its embeddings take, as float32; 0 for a damaged collection.
        metadata_keys: keys of its metadata; not their values.
    """

    name: str
    count: int | None
    dimension: int | None
    distance: Distance
    embedding_bytes: int
    metadata_keys: list[str]


class Stats(msgspec.Struct, frozen=True):
    """Figures of a service.

    Attributes:
        address: its address.
        collections: its collections, by name.
        total_collections: how many.
        total_documents: in all of them that could be counted.
        total_embedding_bytes: in all of them.
    """

    address: str
    collections: list[CollectionStats]
    total_collections: int
    total_documents: int
    total_embedding_bytes: int


def stats_of(address: str, collections: list[Collection]) -> Stats:
    """Count.

    Args:
        address: the service's address.
        collections: its collections.

    Returns:
        The figures.
    """
    told = [
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
        address, told, len(told), sum(each.count or 0 for each in told), sum(each.embedding_bytes for each in told)
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
        console = Console(markup=False, highlight=False, width=WIDEST)
    console.print(table)


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
