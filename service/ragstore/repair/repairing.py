"""Finds collections whose index Chroma was killed over while it saved it, and makes their log whole again.

Chroma 1.5.9 saves an index in place, every 1,000 writes to a collection by default. Killed in that moment, it answers
every call about that collection with "Failed to apply logs to the hnsw segment writer" or "Error loading hnsw index"
from then on. No document is lost by that: texts and metadata are in the database, the embeddings of the last writes in
its log, and those of the others in the index's files, which are ahead of what else was saved but not wrong.

So the entries that the log had before it was shortened are written again, from the index's files, and the index is
taken away. Chroma makes a new one of them when it opens the collection, which takes it as long as adding them took.

Where the ids of the elements were lost, their order tells them: Chroma numbers the elements of an index, and the rows
of its database, in the order in which documents came. Nothing is changed unless all documents get their embedding.

A log that Chroma can never apply is repaired here, too: see `poisoned_log`.
"""

from __future__ import annotations

import itertools
import shutil
import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from ragstore.repair.log_entries import ADD, Lacking, lacking
from ragstore.repair.poisoned_log import remove_poison
from ragstore.repair.saved_index import read_index
from ragstore.repair.segments import DELETE, NotRepairable, Segment, configuration, segments

DATABASE: Final = "chroma.sqlite3"
ASIDE: Final = ".damaged"
"""Follows the name of an index's folder while its log is being made whole. A repair that was cut off goes on there."""


class Repaired(msgspec.Struct, frozen=True):
    """A collection whose index or log was damaged.

    Attributes:
        collection: its name.
        collection_id: Chroma's id of it.
        tenant: Chroma tenant.
        database: Chroma database.
        documents: how many documents it has.
        problem: why its index could not be repaired; empty when it was, or was not damaged.
        removed: entries of its log that were removed, since Chroma can never apply one of them.
        index: whether its index was damaged, or named.
    """

    collection: str
    collection_id: str
    tenant: str
    database: str
    documents: int
    problem: str = ""
    removed: int = 0
    index: bool = True


def repair(folder: Path, names: Collection[str] = ()) -> list[Repaired]:
    """Repair what a kill, or a write that Chroma cannot apply, has damaged. Chroma must not be running on the folder.

    Args:
        folder: where Chroma keeps its data.
        names: collections whose index is made anew although no damage is seen.

    Returns:
        The collections that were damaged, whether or not they could be repaired.

    Raises:
        OSError: files cannot be read or written.
        sqlite3.Error: the database cannot.
    """
    if not (folder / DATABASE).is_file():
        return []
    repaired: list[Repaired] = []
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        for segment in segments(database):
            removed = remove_poison(database, segment)
            problem, index = "", True
            try:
                index = _repair(database, folder, segment, forced=segment.name in names)
            except NotRepairable as error:
                problem = str(error)
            if not index and not removed:
                continue
            (documents,) = database.execute(
                "SELECT count(*) FROM embeddings WHERE segment_id = ?", (segment.rows,)
            ).fetchone()
            repaired.append(
                Repaired(
                    segment.name,
                    segment.collection_id,
                    segment.tenant,
                    segment.database,
                    documents,
                    problem,
                    removed,
                    index,
                )
            )
    return repaired


def _repair(database: sqlite3.Connection, folder: Path, segment: Segment, *, forced: bool) -> bool:
    """Repair one index, if that is needed.

    Returns:
        Whether it was.

    Raises:
        NotRepairable: it is needed, and cannot be done.
    """
    live = folder / segment.index
    aside = folder / (segment.index + ASIDE)
    try:
        made = configuration(segment)
    except NotRepairable:
        if forced or aside.is_dir():
            raise
        return False  # most likely the data of an older Chroma, and in order
    index = read_index(aside if aside.is_dir() else live, segment.dimension, made)
    is_new = index is None and segment.saved == 0
    if not forced and not aside.is_dir() and (is_new or (index is not None and index.is_whole)):
        return False
    needed = lacking(database, segment, index)
    # The files are put aside first and deleted last: whenever this is cut off, it can be done again.
    if aside.is_dir():
        shutil.rmtree(live, ignore_errors=True)
    elif live.is_dir():
        live.rename(aside)
    _complete_log(database, segment, needed)
    shutil.rmtree(aside, ignore_errors=True)
    return True


def _complete_log(database: sqlite3.Connection, segment: Segment, needed: Lacking) -> None:
    """Write entries where the log had them, and let Chroma forget that the index was saved; all or nothing."""
    with database:
        database.execute("DELETE FROM embeddings_queue WHERE topic = ? AND seq_id <= ?", (segment.topic, needed.upto))
        others = "SELECT seq_id FROM embeddings_queue WHERE seq_id <= ?"
        taken = {place for (place,) in database.execute(others, (needed.upto,))}
        free = (place for place in range(1, needed.upto + 1) if place not in taken)
        places = list(itertools.islice(free, needed.documents))
        write = (
            "INSERT INTO embeddings_queue (seq_id, operation, topic, id, vector, encoding) "
            "VALUES (?, ?, ?, ?, ?, 'FLOAT32')"
        )
        database.executemany(
            write,
            (
                (place, ADD, segment.topic, document_id, embedding)
                for place, (document_id, embedding) in zip(places, needed.entries, strict=True)
            ),
        )
        if needed.upto and needed.upto not in places:
            # The next write gets the number after the largest one, so the last entry must not be missing.
            database.execute(write, (needed.upto, DELETE, segment.topic, uuid4().hex, None))
        database.execute("DELETE FROM max_seq_id WHERE segment_id = ?", (segment.index,))
