"""What the log of a collection had before Chroma shortened it, read from a saved index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

import numpy as np

from ragstore.cosine import sendable
from ragstore.repair.saved_index import SavedIndex
from ragstore.repair.segments import NotRepairable, Segment

ROWS: Final = 1000
"""Embeddings that are in memory at a time."""

LOST: Final = "{} embeddings are neither in its index nor in its log"


def check_log(database: sqlite3.Connection, segment: Segment) -> None:
    """Make sure that the log of an index that was never saved has all documents.

    Args:
        database: Chroma's.
        segment: the index.

    Raises:
        NotRepairable: it has not.
    """
    (missing,) = database.execute(
        "SELECT count(*) FROM embeddings WHERE segment_id = ? AND embedding_id NOT IN "
        "(SELECT id FROM embeddings_queue WHERE topic = ?)",
        (segment.rows, segment.topic),
    ).fetchone()
    if missing:
        raise NotRepairable(LOST.format(missing))


def entries(
    database: sqlite3.Connection, segment: Segment, index: SavedIndex, *, cosine: bool
) -> Iterator[tuple[str, bytes]]:
    """What the log lacks.

    Args:
        database: Chroma's.
        segment: the index.
        index: its files.
        cosine: whether its distance is cosine.

    Returns:
        Ids with embeddings, as little-endian float32: of all that the log does not have anyway. They are read while
        they are taken, but everything is there when this returns.

    Raises:
        NotRepairable: a document's embedding is missing.
    """
    rows = [
        document_id
        for (document_id,) in database.execute(
            "SELECT embedding_id FROM embeddings WHERE segment_id = ? ORDER BY id", (segment.rows,)
        )
    ]
    newer: dict[str, bytes | None] = dict(
        database.execute(
            "SELECT id, vector FROM embeddings_queue WHERE topic = ? AND seq_id > ? ORDER BY seq_id",
            (segment.topic, segment.saved),
        ).fetchall()
    )
    usable = index.usable(cosine=cosine)
    places = {int(index.labels[place]): int(place) for place in np.flatnonzero(usable)}
    labels = _labels_in_order(index, rows) if index.ids is None else index.ids.labels
    found = {document_id: places[label] for document_id, label in labels.items() if label in places}
    missing = sum(document_id not in found and document_id not in newer for document_id in rows)
    if missing:
        raise NotRepairable(LOST.format(missing))
    if index.ids is None:
        _check_order(index, found, newer, cosine=cosine)
    # The log has what was written last.
    older = {document_id: place for document_id, place in found.items() if newer.get(document_id) is None}
    return _read(index, older, cosine=cosine)


def _labels_in_order(index: SavedIndex, rows: list[str]) -> dict[str, int]:
    """Labels by the order of the documents, where what told the ids is lost."""
    labels = np.sort(index.labels[index.alive]).tolist()
    if len(labels) != len(rows):
        raise NotRepairable(f"The ids of its index are lost, and its {len(labels)} elements are not its documents")
    return dict(zip(rows, labels, strict=True))


def _check_order(index: SavedIndex, found: dict[str, int], newer: dict[str, bytes | None], *, cosine: bool) -> None:
    """Make sure that the order gives documents their own embeddings: the log tells those that were written last."""
    relative, absolute = (1e-4, 1e-6) if cosine else (0.0, 0.0)
    for document_id, vector in newer.items():
        if vector is None or document_id not in found:
            continue
        (kept,) = index.embeddings([found[document_id]], cosine=cosine)
        if not np.allclose(kept, np.frombuffer(vector, "<f4"), relative, absolute):
            raise NotRepairable("The ids of its index are lost, and its elements are not in the order of its documents")


def _read(index: SavedIndex, found: dict[str, int], *, cosine: bool) -> Iterator[tuple[str, bytes]]:
    ids = list(found)
    for start in range(0, len(ids), ROWS):
        some = ids[start : start + ROWS]
        rows = index.embeddings([found[document_id] for document_id in some], cosine=cosine)
        # Of what is written now, Chroma must make what it gave back before.
        for document_id, row in zip(some, sendable(rows) if cosine else rows, strict=True):
            yield document_id, row.astype("<f4").tobytes()
