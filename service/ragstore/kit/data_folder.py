"""The folder of a service's data: who may read it, and whether it can be written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

MIN_FREE_BYTES: Final = 2**20
"""Free space below which a folder's disk counts as full. Embedded Chroma then fails at reads, too."""

OWNER_ONLY: Final = 0o700
_OTHERS: Final = 0o007
_OTHERS_READ: Final = 0o005


class FolderUnusableError(Exception):
    """A service cannot work in its data folder."""


def prepare_folder(folder: Path) -> bool:
    """Create a data folder that only this user can read, and let no other user read the files of this process.

    The folder may exist: its permissions stay, because others may need them, such as the group of a mounted volume.

    Returns:
        Whether all users of the machine can read it.

    Raises:
        OSError: it is no folder, or cannot be created.
    """
    os.umask(os.umask(_OTHERS) | _OTHERS)
    folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
    return bool(folder.stat().st_mode & _OTHERS_READ)


def usable_bytes(database: Path) -> int:
    """Check that a service can work in its data folder.

    Args:
        database: the file of the database in it, which is open.

    Returns:
        The size of that file.

    Raises:
        FolderUnusableError: the folder or the file is gone or read-only, or the disk is full.
    """
    folder = database.parent
    try:
        size = database.stat().st_size
        free = shutil.disk_usage(folder).free
    except OSError:
        raise FolderUnusableError("The data folder is gone") from None
    if not os.access(folder, os.W_OK) or not os.access(database, os.W_OK):
        raise FolderUnusableError("The data folder is read-only")
    if free < MIN_FREE_BYTES:
        raise FolderUnusableError("The disk of the data folder is full")
    return size
