"""Finds collections whose index was being saved when Chroma was killed, and completes their log.

Chroma 1.5.9 saves an index in place, every 1,000 writes to a collection by default. If it is killed during a save, it
responds to every call about that collection with "Failed to apply logs to the hnsw segment writer" or "Error loading
hnsw index" from then on. No document is lost: texts and metadata are in the database, the embeddings of the last writes
are in its log, and the other embeddings are in the index's files, which are ahead of the rest of the save but correct.

The repair writes the entries that Chroma had removed from the log again, from the index's files, and removes the index.
Chroma rebuilds it from the log when it opens the collection, which takes as long as adding the documents took.

An embedding of a cosine collection is stored divided by its norm. The entry for it is what Chroma returned for it
before the repair, and Chroma rounds that once more: it returns the same numbers within 1e-6, relative. Embeddings of
other collections come back exactly.

When the ids of the elements are lost, they follow from the order: Chroma numbers the elements of an index, and the rows
of its database, in the order in which documents were added. Nothing is changed unless every document has its embedding.

A log that Chroma can never apply is repaired here too: see `poisoned_log`.
"""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from chroma_repair.data_lock import DATABASE
from chroma_repair.missing_entries import MissingEntries, missing_entries
from chroma_repair.poisoned_log import remove_poison
from chroma_repair.saved_index import read_index
from chroma_repair.segments import ADD, DELETE, NotRepairable, Segment, configuration, segments

ASIDE: Final = ".damaged"
"""Suffix of an index's folder while its log is being completed. An interrupted repair continues from that folder."""


@dataclass(frozen=True, slots=True)
class RepairResult:
    """A collection whose index or log was damaged, or that was named.

    Attributes:
        collection: its name.
        collection_id: Chroma's id of it.
        tenant: Chroma tenant.
        database: Chroma database.
        documents: number of documents it has.
        problem: why its index could not be repaired; empty when it was repaired, or undamaged.
        removed_entries: number of log entries that were removed, because Chroma can never apply one of them.
        index: whether its index was damaged, or the collection was named.
    """

    collection: str
    collection_id: str
    tenant: str
    database: str
    documents: int
    problem: str = ""
    removed_entries: int = 0
    index: bool = True


def repair(folder: Path, names: Collection[str] = ()) -> list[RepairResult]:
    """Repair the damage of a kill, or of a write that Chroma cannot apply. Chroma must not be running on the folder.

    Args:
        folder: Chroma's data folder.
        names: collections whose index is rebuilt even if it looks undamaged.

    Returns:
        The collections that were damaged, whether or not they could be repaired.

    Raises:
        OSError: files cannot be read or written.
        sqlite3.Error: the database cannot be read or written.
    """
    if not (folder / DATABASE).is_file():
        return []
    results: list[RepairResult] = []
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        for segment in segments(database):
            removed_entries = remove_poison(database, segment)
            problem, index = "", True
            try:
                index = _repair(database, folder, segment, forced=segment.name in names)
            except NotRepairable as error:
                problem = str(error)
            if not index and not removed_entries:
                continue
            (documents,) = database.execute(
                "SELECT count(*) FROM embeddings WHERE segment_id = ?", (segment.rows,)
            ).fetchone()
            results.append(
                RepairResult(
                    segment.name,
                    segment.collection_id,
                    segment.tenant,
                    segment.database,
                    documents,
                    problem,
                    removed_entries,
                    index,
                )
            )
    return results


def _repair(database: sqlite3.Connection, folder: Path, segment: Segment, *, forced: bool) -> bool:
    """Repair one index if it needs it.

    Returns:
        Whether it was repaired.

    Raises:
        NotRepairable: it needs repair, and cannot be repaired.
    """
    live = folder / segment.index
    aside = folder / (segment.index + ASIDE)
    try:
        parameters = configuration(segment)
    except NotRepairable:
        if forced or aside.is_dir():
            raise
        return False  # most likely the data of an older Chroma, and undamaged
    index = read_index(aside if aside.is_dir() else live, segment.dimension, parameters)
    is_new = index is None and segment.saved == 0
    if not forced and not aside.is_dir() and (is_new or (index is not None and index.is_complete)):
        return False
    missing = missing_entries(database, segment, index)
    # The files are moved aside first and deleted last: a repair that is interrupted at any point can be run again.
    if aside.is_dir():
        shutil.rmtree(live, ignore_errors=True)
    elif live.is_dir():
        live.rename(aside)
    _complete_log(database, segment, missing)
    shutil.rmtree(aside, ignore_errors=True)
    return True


def _complete_log(database: sqlite3.Connection, segment: Segment, missing: MissingEntries) -> None:
    """Write the missing entries and remove the record that the index was saved, in one transaction."""
    with database:
        database.execute(
            "DELETE FROM embeddings_queue WHERE topic = ? AND seq_id <= ?", (segment.topic, missing.up_to_seq)
        )
        others = "SELECT seq_id FROM embeddings_queue WHERE seq_id <= ?"
        taken = {seq_id for (seq_id,) in database.execute(others, (missing.up_to_seq,))}
        free = (seq_id for seq_id in range(1, missing.up_to_seq + 1) if seq_id not in taken)
        seq_ids = list(itertools.islice(free, missing.documents))
        write = (
            "INSERT INTO embeddings_queue (seq_id, operation, topic, id, vector, encoding) "
            "VALUES (?, ?, ?, ?, ?, 'FLOAT32')"
        )
        database.executemany(
            write,
            (
                (seq_id, ADD, segment.topic, document_id, embedding)
                for seq_id, (document_id, embedding) in zip(seq_ids, missing.entries, strict=True)
            ),
        )
        if missing.up_to_seq and missing.up_to_seq not in seq_ids:
            # The next write gets the number after the largest one, so the last entry must exist.
            database.execute(write, (missing.up_to_seq, DELETE, segment.topic, uuid4().hex, None))
        database.execute("DELETE FROM max_seq_id WHERE segment_id = ?", (segment.index,))
