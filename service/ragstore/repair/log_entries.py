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


def lacking(database: sqlite3.Connection, segment: Segment, index: SavedIndex, *, cosine: bool) -> Lacking:
    """What the log of an index lacks that was saved once.

    Entries are in the order of the documents, so that it is that of the elements again: another repair may rely on it.

    Args:
        database: Chroma's.
        segment: the index.
        index: its files.
        cosine: whether its distance is cosine.

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
    usable = index.usable(cosine=cosine)
    places = {int(index.labels[place]): int(place) for place in np.flatnonzero(usable)}
    if index.ids is None:
        labels, upto = _labels_in_order(index, rows), segment.applied
    else:
        labels, upto = index.ids.labels, segment.saved
    found = {document_id: places[labels[document_id]] for document_id in rows if labels.get(document_id) in places}
    newer = "SELECT id FROM embeddings_queue WHERE topic = ? AND seq_id > ? AND vector IS NOT NULL"
    logged = {document_id for (document_id,) in database.execute(newer, (segment.topic, upto))}
    if missing := sum(document_id not in found and document_id not in logged for document_id in rows):
        raise NotRepairable(LOST.format(missing))
    if index.ids is None:
        _check_order(database, segment, index, found, cosine=cosine)
    return Lacking(upto, len(found), _read(index, found, cosine=cosine))


def _labels_in_order(index: SavedIndex, rows: list[str]) -> dict[str, int]:
    """Labels by the order of the documents, where what told the ids is lost."""
    labels = np.sort(index.labels[index.alive]).tolist()
    if len(labels) != len(rows) or len(index.labels) != index.elements:
        raise NotRepairable(f"The ids of its index are lost, and its {len(labels)} elements are not its documents")
    return dict(zip(rows, labels, strict=True))


def _check_order(
    database: sqlite3.Connection, segment: Segment, index: SavedIndex, found: dict[str, int], *, cosine: bool
) -> None:
    """Make sure that the order gives documents their own embeddings: the log tells those that were written last."""
    # What an add wrote may have been passed over, since the id was taken.
    written = dict(
        database.execute(
            "SELECT id, vector FROM embeddings_queue "
            "WHERE topic = ? AND seq_id <= ? AND vector IS NOT NULL AND operation != ? ORDER BY seq_id",
            (segment.topic, segment.applied, ADD),
        ).fetchall()
    )
    relative, absolute = (1e-4, 1e-6) if cosine else (0.0, 0.0)
    for document_id, vector in written.items():
        if document_id not in found:
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
