"""The distances of collections that Chroma 0.5 or 0.6 created, read from Chroma's database."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from ragstore.model.collections import DISTANCES, SPACE, Distance

DISTANCES_QUERY: Final = """
    SELECT segments.collection, segment_metadata.str_value
    FROM segment_metadata JOIN segments ON segments.id = segment_metadata.segment_id
    WHERE segment_metadata.key = ?
"""


def distances(folder: Path) -> dict[str, Distance]:
    """The distances of the collections that Chroma 0.5 or 0.6 created with `hnsw:space`.

    Chroma 1.5.9 computes distances by the metadata of such a collection's index (`segment_metadata`), which never
    changes, and reports a configuration of defaults. The collection's own metadata loses the key when a client of
    Chroma replaces the metadata. Chroma 1 writes no metadata of an index.

    Args:
        folder: folder of the data, opened by Chroma before.

    Returns:
        The distances by collection id.
    """
    with closing(sqlite3.connect(f"{(folder / 'chroma.sqlite3').resolve().as_uri()}?mode=ro", uri=True)) as database:
        rows = database.execute(DISTANCES_QUERY, (SPACE,)).fetchall()
    return {collection_id: DISTANCES[space] for collection_id, space in rows if space in DISTANCES}
