"""Folders of indexes whose collection was deleted, which Chroma 1.5.9 leaves behind: 160 KiB and more each.

Upstream: https://github.com/chroma-core/chroma/issues/5259
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID

from chroma_repair.data_lock import DATABASE


def remove_orphans(folder: Path) -> int:
    """Remove the folders of indexes that no collection has. No process may have the data open.

    Args:
        folder: folder of Chroma's data.

    Returns:
        The number of folders that were removed.
    """
    database = folder / DATABASE
    if not database.is_file():
        return 0
    indexes = [entry for entry in folder.iterdir() if _is_index(entry)]
    if not indexes:
        return 0
    try:
        with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            known = {segment_id for (segment_id,) in connection.execute("SELECT id FROM segments")}
    except sqlite3.Error:
        return 0  # of a database that cannot be read, nothing is known to be an orphan
    orphans = [entry for entry in indexes if entry.name not in known]
    for entry in orphans:
        shutil.rmtree(entry, ignore_errors=True)
    return len(orphans)


def _is_index(entry: Path) -> bool:
    """Whether an entry of the data's folder is the folder of an index."""
    try:
        is_named_as_one = str(UUID(entry.name)) == entry.name
    except ValueError:
        return False
    return is_named_as_one and entry.is_dir() and not entry.is_symlink()
