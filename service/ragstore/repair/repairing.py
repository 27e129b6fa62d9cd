"""Finds collections whose index Chroma was killed over while it saved it, and makes their log whole again.

Chroma 1.5.9 saves an index in place, every 1,000 writes to a collection by default. Killed in that moment, it answers
every call about that collection with "Failed to apply logs to the hnsw segment writer" or "Error loading hnsw index"
from then on. No document is lost by that: texts and metadata are in the database, the embeddings of the last writes in
its log, and those of the others in the index's files, which are ahead of what else was saved but not wrong.

So the entries that the log had before it was shortened are written again, from the index's files, and the index is
taken away. Chroma makes a new one of them when it opens the collection, which takes it as long as adding them took.

Where the ids of the elements were lost, their order tells them: Chroma numbers the elements of an index, and the rows
of its database, in the order in which documents came. Nothing is changed unless all documents get their embedding.
"""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragstore.cosine import sendable
from ragstore.repair.saved_index import SavedIndex, read_index

DATABASE: Final = "chroma.sqlite3"
ASIDE: Final = ".damaged"
"""Follows the name of an index's folder while its log is being made whole. A repair that was cut off goes on there."""

TOPIC: Final = "persistent://default/default/"
"""Stands before a collection's id in the log."""

ADD: Final = 0
ROWS: Final = 1000
"""Embeddings that are in memory at a time."""


class Repaired(msgspec.Struct, frozen=True):
    """A collection whose index was damaged.

    Attributes:
        collection: its name.
        collection_id: Chroma's id of it.
        tenant: Chroma tenant.
        database: Chroma database.
        documents: how many documents it has.
        problem: why it could not be repaired; empty when it was.
    """

    collection: str
    collection_id: str
    tenant: str
    database: str
    documents: int
    problem: str = ""


class NotRepairable(Exception):
    """An embedding cannot be found. The text says why."""


class _Segment(msgspec.Struct, frozen=True):
    """An index in the database.

    Attributes:
        index: name of its folder.
        rows: id of the segment that has the collection's texts and metadata.
        saved: last entry of the log that the index was saved with; 0 for none.
    """

    index: str
    rows: str
    saved: int
    collection_id: str
    name: str
    schema: str | None
    database: str
    tenant: str


_SEGMENTS: Final = """
    SELECT v.id, m.id, coalesce(s.seq_id, 0), c.id, c.name, c.schema_str, d.name, d.tenant_id
    FROM segments v
    JOIN segments m ON m.collection = v.collection AND m.scope = 'METADATA'
    JOIN collections c ON c.id = v.collection
    JOIN databases d ON d.id = c.database_id
    LEFT JOIN max_seq_id s ON s.segment_id = v.id
    WHERE v.type = 'urn:chroma:segment/vector/hnsw-local-persisted'
"""


def repair(folder: Path, names: Collection[str] = ()) -> list[Repaired]:
    """Repair what a kill has damaged. Chroma must not be running on the folder.

    Args:
        folder: where Chroma keeps its data.
        names: collections whose index is made anew although no damage is seen.

    Returns:
        The collections that were damaged, whether or not they could be repaired.

    Raises:
        sqlite3.Error: the database cannot be read or written.
    """
    if not (folder / DATABASE).is_file():
        return []
    repaired: list[Repaired] = []
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        for row in database.execute(_SEGMENTS).fetchall():
            segment = _Segment(*row)
            index = _source(folder, segment)
            if index is None and segment.saved == 0 and not _is_aside(folder, segment):
                continue  # nothing was saved yet
            if index is not None and index.is_whole and not _is_aside(folder, segment) and segment.name not in names:
                continue
            problem = ""
            try:
                _rebuild(database, folder, segment, index)
            except NotRepairable as error:
                problem = str(error)
            (documents,) = database.execute(
                "SELECT count(*) FROM embeddings WHERE segment_id = ?", (segment.rows,)
            ).fetchone()
            repaired.append(
                Repaired(segment.name, segment.collection_id, segment.tenant, segment.database, documents, problem)
            )
    return repaired


def _is_aside(folder: Path, segment: _Segment) -> bool:
    return (folder / (segment.index + ASIDE)).is_dir()


def _source(folder: Path, segment: _Segment) -> SavedIndex | None:
    """The files of an index, wherever a repair that was cut off has left them."""
    return read_index(folder / (segment.index + (ASIDE if _is_aside(folder, segment) else "")))


def _rebuild(database: sqlite3.Connection, folder: Path, segment: _Segment, index: SavedIndex | None) -> None:
    """Make the log of a collection whole, and take its index away.

    The files are put aside first, and deleted last: whenever this is cut off, it can be done again.
    """
    topic = TOPIC + segment.collection_id
    live, aside = folder / segment.index, folder / (segment.index + ASIDE)
    entries: Iterator[tuple[str, bytes]] = iter(())
    if segment.saved:
        if index is None:
            raise NotRepairable("The files of its index are gone or cannot be read")
        entries = _entries(database, segment, topic, index)
    else:
        _check_log(database, segment, topic)
    if aside.is_dir():
        shutil.rmtree(live, ignore_errors=True)
    elif live.is_dir():
        live.rename(aside)
    with database:
        # What was saved is told by the index, the last entry included, which Chroma leaves in the log.
        database.execute("DELETE FROM embeddings_queue WHERE topic = ? AND seq_id <= ?", (topic, segment.saved))
        taken = {
            seq
            for (seq,) in database.execute("SELECT seq_id FROM embeddings_queue WHERE seq_id <= ?", (segment.saved,))
        }
        free = (seq for seq in itertools.count(1) if seq not in taken)
        database.executemany(
            "INSERT INTO embeddings_queue (seq_id, operation, topic, id, vector, encoding) "
            "VALUES (?, ?, ?, ?, ?, 'FLOAT32')",
            ((next(free), ADD, topic, document_id, embedding) for document_id, embedding in entries),
        )
        database.execute("DELETE FROM max_seq_id WHERE segment_id = ?", (segment.index,))
    shutil.rmtree(aside, ignore_errors=True)


def _check_log(database: sqlite3.Connection, segment: _Segment, topic: str) -> None:
    """Make sure that the log of an index that was never saved has all documents."""
    (missing,) = database.execute(
        "SELECT count(*) FROM embeddings WHERE segment_id = ? AND embedding_id NOT IN "
        "(SELECT id FROM embeddings_queue WHERE topic = ?)",
        (segment.rows, topic),
    ).fetchone()
    if missing:
        raise NotRepairable(f"{missing} embeddings are neither in its index nor in its log")


def _entries(
    database: sqlite3.Connection, segment: _Segment, topic: str, index: SavedIndex
) -> Iterator[tuple[str, bytes]]:
    """What the log had before it was shortened: ids with embeddings as little-endian float32."""
    cosine = _is_cosine(segment.schema)
    rows = [
        document_id
        for (document_id,) in database.execute(
            "SELECT embedding_id FROM embeddings WHERE segment_id = ? ORDER BY id", (segment.rows,)
        )
    ]
    newer: dict[str, bytes | None] = dict(
        database.execute(
            "SELECT id, vector FROM embeddings_queue WHERE topic = ? AND seq_id > ? ORDER BY seq_id",
            (topic, segment.saved),
        ).fetchall()
    )
    places = {int(label): place for place, label in enumerate(index.labels)}
    labels = _labels_in_order(index, rows) if index.ids is None else index.ids.labels
    found = {document_id: places[label] for document_id, label in labels.items() if label in places}
    missing = sum(document_id not in found and document_id not in newer for document_id in rows)
    if missing:
        raise NotRepairable(f"{missing} embeddings are neither in its index nor in its log")
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
    for document_id, vector in newer.items():
        if vector is None or document_id not in found:
            continue
        (kept,) = index.embeddings(np.array([found[document_id]]), cosine=cosine)
        written = np.frombuffer(vector, "<f4")
        if len(kept) != len(written) or not np.allclose(
            kept, written, rtol=1e-4 if cosine else 0.0, atol=1e-6 if cosine else 0.0
        ):
            raise NotRepairable("The ids of its index are lost, and its elements are not in the order of its documents")


def _read(index: SavedIndex, found: dict[str, int], *, cosine: bool) -> Iterator[tuple[str, bytes]]:
    ids = list(found)
    for start in range(0, len(ids), ROWS):
        some = ids[start : start + ROWS]
        rows: NDArray[np.float32] = index.embeddings(
            np.array([found[document_id] for document_id in some]), cosine=cosine
        )
        # Of what is sent now, Chroma must make what it gave back before.
        for document_id, row in zip(some, sendable(rows) if cosine else rows, strict=True):
            yield document_id, row.astype("<f4").tobytes()


class _Configuration(msgspec.Struct):
    space: str


class _VectorIndex(msgspec.Struct):
    config: _Configuration


class _Floats(msgspec.Struct):
    vector_index: _VectorIndex


class _Embedding(msgspec.Struct):
    float_list: _Floats


class _Keys(msgspec.Struct):
    embedding: _Embedding = msgspec.field(name="#embedding")


class _Schema(msgspec.Struct):
    """The part of a collection's schema, as Chroma writes it, that tells the distance."""

    keys: _Keys


def _is_cosine(schema: str | None) -> bool:
    try:
        return (
            msgspec.json.decode(schema or "", type=_Schema).keys.embedding.float_list.vector_index.config.space
            == "cosine"
        )
    except msgspec.MsgspecError:
        raise NotRepairable("Its distance cannot be read") from None
