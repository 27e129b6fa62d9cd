"""Finds entries of a collection's log that Chroma can never apply, and takes them out.

A write is first an entry in Chroma's log for each document, then applied to the collection, in one transaction for all
entries that are not applied yet. Chroma 1.5.9 writes the metadata of a document in SQL statements of 6 variables for
each value. SQLite takes 32,766 variables, so an entry of more values fails; it stays in the log, and from then on fails
every write and, after a restart, every read of its collection.

No entry from the first that is not applied has been acknowledged, whatever came after it: each write applies the whole
log before it succeeds. So they are all removed, and the collection is what it was after its last successful write.
"""

from __future__ import annotations

import sqlite3
from typing import Final
from uuid import uuid4

import msgspec

from ragstore.repair.segments import DELETE, Segment

MAX_VARIABLES: Final = 32_766
"""Variables that SQLite takes in one statement."""

VALUE_VARIABLES: Final = 6
"""Variables of a value that is written: id, key, and a column for each type."""


def remove_poison(database: sqlite3.Connection, segment: Segment) -> int:
    """Remove what is not applied from the log of a collection, if an entry of it can never be.

    Args:
        database: Chroma's.
        segment: the collection's index.

    Returns:
        How many entries were removed; 0 when nothing was to be done.
    """
    entries = database.execute(
        "SELECT seq_id, metadata FROM embeddings_queue WHERE topic = ? AND seq_id > ? ORDER BY seq_id",
        (segment.topic, segment.applied),
    )
    last, count, poisoned = 0, 0, False
    for seq_id, metadata in entries:
        last, count = seq_id, count + 1
        poisoned = poisoned or _cannot_be_applied(metadata)
    if not poisoned:
        return 0
    with database:
        database.execute(
            "DELETE FROM embeddings_queue WHERE topic = ? AND seq_id > ? AND seq_id < ?",
            (segment.topic, segment.applied, last),
        )
        # Chroma numbers the next write after the largest number in its log, so the last entry stays, with no effect.
        database.execute(
            "UPDATE embeddings_queue SET operation = ?, id = ?, vector = NULL, metadata = NULL WHERE seq_id = ?",
            (DELETE, uuid4().hex, last),
        )
    return count


def _cannot_be_applied(metadata: str | None) -> bool:
    """Whether the metadata of an entry, as JSON, needs more variables than a statement can have."""
    if metadata is None or len(metadata) < MAX_VARIABLES // VALUE_VARIABLES:
        return False
    try:
        values = msgspec.json.decode(metadata, type=dict[str, object]).values()
    except msgspec.MsgspecError:
        return False
    removed = sum(value is None for value in values)
    lists = [value for value in values if isinstance(value, list)]
    written = len(values) - removed - len(lists)
    members = sum(map(len, lists))
    # A key is removed where its value becomes a list, and its members where it becomes another value.
    statements = (written * VALUE_VARIABLES, members * VALUE_VARIABLES, removed + max(written, len(lists)) + 1)
    return max(statements) > MAX_VARIABLES
