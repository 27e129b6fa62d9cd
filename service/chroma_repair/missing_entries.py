"""The entries that Chroma removed from a collection's log, recovered from the saved index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from chroma_repair.saved_index import SavedIndex
from chroma_repair.segments import ADD, NotRepairable, Segment

ROWS: Final = 1000
"""Number of embeddings that are in memory at a time."""

COSINE_TOLERANCES: Final = (1e-4, 1e-6)
"""Relative and absolute difference allowed between a cosine embedding in the log and in the index.

The index stores it divided by its norm, so it comes back rounded (below 3e-7 with Chroma 1.5.9). The allowance is wide,
since it only decides whether two embeddings belong to the same document.
"""


class MissingEntries(NamedTuple):
    """The entries that a log needs before Chroma can rebuild the index from it.

    Attributes:
        up_to_seq: these entries replace the log up to this sequence number.
        documents: number of entries.
        entries: ids with embeddings, as little-endian float32, in the order of the documents. They are read while they
            are iterated.
    """

    up_to_seq: int
    documents: int
    entries: Iterator[tuple[str, bytes]]


def missing_entries(database: sqlite3.Connection, segment: Segment, index: SavedIndex | None) -> MissingEntries:
    """Find the entries that a collection's log needs before its index can be rebuilt.

    Entries are in the order of the documents, so that the elements of the new index are in that order too: a later
    repair may rely on it.

    Args:
        database: Chroma's database.
        segment: the index.
        index: its files; None when they are missing.

    Returns:
        The entries. Every document has its embedding in them or in the rest of the log.

    Raises:
        NotRepairable: a document has no embedding.
    """
    document_ids = [
        document_id
        for (document_id,) in database.execute(
            "SELECT embedding_id FROM embeddings WHERE segment_id = ? ORDER BY id", (segment.rows,)
        )
    ]
    found: dict[str, int] = {}
    up_to_seq = 0  # the log of an index that was never saved is complete
    if segment.saved:
        if index is None:
            raise NotRepairable("The files of its index are missing or cannot be read")
        if index.ids is None:
            found, up_to_seq = _rows_of(index, _labels_in_order(index, document_ids), document_ids), segment.applied
            _check_order(database, segment, index, found)
        else:
            found, up_to_seq = _rows_of(index, index.ids.labels, document_ids), segment.saved
    newer = "SELECT id FROM embeddings_queue WHERE topic = ? AND seq_id > ? AND vector IS NOT NULL"
    logged = {document_id for (document_id,) in database.execute(newer, (segment.topic, up_to_seq))}
    if missing := sum(document_id not in found and document_id not in logged for document_id in document_ids):
        raise NotRepairable(f"{missing} embeddings are neither in its index nor in its log")
    return MissingEntries(up_to_seq, len(found), iter(()) if index is None else _read(index, found))


def _rows_of(index: SavedIndex, labels: dict[str, int], document_ids: list[str]) -> dict[str, int]:
    """The row of each document in an index, in the order of the documents. Documents without a row are left out."""
    rows = {int(index.labels[row]): int(row) for row in np.flatnonzero(index.usable)}
    return {document_id: rows[labels[document_id]] for document_id in document_ids if labels.get(document_id) in rows}


def _labels_in_order(index: SavedIndex, document_ids: list[str]) -> dict[str, int]:
    """Assign labels by the order of the documents, for an index whose ids are lost."""
    labels = np.sort(index.labels[index.alive]).tolist()
    if len(labels) != len(document_ids) or len(index.labels) != index.elements:
        raise NotRepairable(
            f"The ids of its index are lost, and it has {len(labels)} elements for {len(document_ids)} documents"
        )
    return dict(zip(document_ids, labels, strict=True))


def _check_order(database: sqlite3.Connection, segment: Segment, index: SavedIndex, found: dict[str, int]) -> None:
    """Check the assignment by order against the embeddings of the last writes, which the log still has."""
    # An add may have been skipped, since its id existed: it says nothing about the embedding that is stored.
    written = dict(
        database.execute(
            "SELECT id, vector FROM embeddings_queue "
            "WHERE topic = ? AND seq_id <= ? AND vector IS NOT NULL AND operation != ? ORDER BY seq_id",
            (segment.topic, segment.applied, ADD),
        ).fetchall()
    )
    relative, absolute = COSINE_TOLERANCES if index.is_cosine else (0.0, 0.0)
    for document_id, vector in written.items():
        if document_id not in found:
            continue
        (stored,) = index.embeddings([found[document_id]])
        if not np.allclose(stored, np.frombuffer(vector, "<f4"), relative, absolute):
            raise NotRepairable("The ids of its index are lost, and its elements are not in the order of its documents")


def _read(index: SavedIndex, found: dict[str, int]) -> Iterator[tuple[str, bytes]]:
    document_ids = list(found)
    for start in range(0, len(document_ids), ROWS):
        chunk = document_ids[start : start + ROWS]
        embeddings = index.embeddings([found[document_id] for document_id in chunk])
        for document_id, embedding in zip(chunk, embeddings, strict=True):
            yield document_id, embedding.astype("<f4").tobytes()
