"""Finds entries of a collection's log that Chroma can never apply, and removes them.

Chroma first appends a write to its log, one entry per document, and then applies all entries that are not applied yet
to the collection, in one transaction. Chroma 1.5.9 writes the metadata of a document in SQL statements with 6 variables
per value. SQLite accepts 32,766 variables, so an entry with more values fails; it stays in the log, and from then on
every write to its collection fails, and after a restart every read.

Neither the first unapplied entry nor any after it has been acknowledged: each write applies the whole log before it
succeeds. So all of them are removed, and the collection is in the state after its last successful write.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Final
from uuid import uuid4

from chroma_repair.segments import DELETE, Segment

MAX_VARIABLES: Final = 32_766
"""Maximum number of variables in an SQLite statement."""

VALUE_VARIABLES: Final = 6
"""Variables per value that is written: id, key, and a column for each type."""


def remove_poison(database: sqlite3.Connection, segment: Segment) -> int:
    """Remove the unapplied entries from a collection's log if one of them can never be applied.

    Args:
        database: Chroma's database.
        segment: the collection's index.

    Returns:
        The number of entries that were removed; 0 if there was nothing to remove.
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
        # Chroma numbers the next write after the largest number in its log, so the last entry stays, without effect.
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
        content = json.loads(metadata)
    except ValueError:
        return False
    if not isinstance(content, dict):
        return False
    values = content.values()
    removed = sum(value is None for value in values)
    lists = [value for value in values if isinstance(value, list)]
    written = len(values) - removed - len(lists)
    members = sum(map(len, lists))
    # A key is removed when its value becomes a list, and its members when it becomes another value.
    statements = (written * VALUE_VARIABLES, members * VALUE_VARIABLES, removed + max(written, len(lists)) + 1)
    return max(statements) > MAX_VARIABLES
