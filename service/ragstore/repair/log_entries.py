"""What the log of a collection had before Chroma shortened it, read from a saved index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from ragstore.cosine import sendable
from ragstore.repair.saved_index import SavedIndex
from ragstore.repair.segments import NotRepairable, Segment

ROWS: Final = 1000
"""Embeddings that are in memory at a time."""

ADD: Final = 0
"""What the log calls the writing of a record whose id is to be new."""


class Lacking(NamedTuple):
    """What a log lacks.

    Attributes:
        upto: last entry that the log may do without when it has these.
        documents: how many entries there are.
        entries: ids with embeddings, as little-endian float32, in the order of the documents. They are read while they
            are taken.
    """

    upto: int
    documents: int
    entries: Iterator[tuple[str, bytes]]


def lacking(database: sqlite3.Connection, segment: Segment, index: SavedIndex | None) -> Lacking:
    """What the log of a collection lacks, to make the index of it.

    Entries are in the order of the documents, so that it is that of the elements again: another repair may rely on it.

    Args:
        database: Chroma's.
        segment: the index.
        index: its files; None when they are not there.

    Returns:
        It. Every document has its embedding in it or in the rest of the log.

    Raises:
        NotRepairable: one has not.
    """
    rows = [
        document_id
        for (document_id,) in database.execute(
            "SELECT embedding_id FROM embeddings WHERE segment_id = ? ORDER BY id", (segment.rows,)
        )
    ]
    found: dict[str, int] = {}
    upto = 0  # an index that was never saved has the whole log
    if segment.saved:
        if index is None:
            raise NotRepairable("The files of its index are gone or cannot be read")
        if index.ids is None:
            found, upto = _places(index, _labels_in_order(index, rows), rows), segment.applied
            _check_order(database, segment, index, found)
        else:
            found, upto = _places(index, index.ids.labels, rows), segment.saved
    newer = "SELECT id FROM embeddings_queue WHERE topic = ? AND seq_id > ? AND vector IS NOT NULL"
    logged = {document_id for (document_id,) in database.execute(newer, (segment.topic, upto))}
    if missing := sum(document_id not in found and document_id not in logged for document_id in rows):
        raise NotRepairable(f"{missing} embeddings are neither in its index nor in its log")
    return Lacking(upto, len(found), iter(()) if index is None else _read(index, found))


def _places(index: SavedIndex, labels: dict[str, int], rows: list[str]) -> dict[str, int]:
    """Where in an index the documents have their embeddings, in their order; without those that have none there."""
    places = {int(index.labels[place]): int(place) for place in np.flatnonzero(index.usable)}
    return {document_id: places[labels[document_id]] for document_id in rows if labels.get(document_id) in places}


def _labels_in_order(index: SavedIndex, rows: list[str]) -> dict[str, int]:
    """Labels by the order of the documents, where what told the ids is lost."""
    labels = np.sort(index.labels[index.alive]).tolist()
    if len(labels) != len(rows) or len(index.labels) != index.elements:
        raise NotRepairable(f"The ids of its index are lost, and its {len(labels)} elements are not its documents")
    return dict(zip(rows, labels, strict=True))


def _check_order(database: sqlite3.Connection, segment: Segment, index: SavedIndex, found: dict[str, int]) -> None:
    """Make sure that the order gives documents their own embeddings: the log tells those that were written last."""
    # What an add wrote may have been passed over, since the id was taken.
    written = dict(
        database.execute(
            "SELECT id, vector FROM embeddings_queue "
            "WHERE topic = ? AND seq_id <= ? AND vector IS NOT NULL AND operation != ? ORDER BY seq_id",
            (segment.topic, segment.applied, ADD),
        ).fetchall()
    )
    relative, absolute = (1e-4, 1e-6) if index.is_cosine else (0.0, 0.0)
    for document_id, vector in written.items():
        if document_id not in found:
            continue
        (kept,) = index.embeddings([found[document_id]])
        if not np.allclose(kept, np.frombuffer(vector, "<f4"), relative, absolute):
            raise NotRepairable("The ids of its index are lost, and its elements are not in the order of its documents")


def _read(index: SavedIndex, found: dict[str, int]) -> Iterator[tuple[str, bytes]]:
    ids = list(found)
    for start in range(0, len(ids), ROWS):
        some = ids[start : start + ROWS]
        rows = index.embeddings([found[document_id] for document_id in some])
        # Of what is written now, Chroma must make what it gave back before.
        for document_id, row in zip(some, sendable(rows) if index.is_cosine else rows, strict=True):
            yield document_id, row.astype("<f4").tobytes()
