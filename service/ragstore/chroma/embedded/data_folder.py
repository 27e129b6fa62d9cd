"""Whether embedded Chroma's data folder can be used."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from chroma_repair.data_lock import DATABASE

MIN_FREE_BYTES: Final = 2**20
"""Free space below which the folder's disk counts as full. Chroma then fails at reads, too."""


class FolderUnusableError(Exception):
    """Chroma cannot work in its data folder."""


def usable_bytes(folder: Path) -> int:
    """Check that Chroma can work in a folder.

    Args:
        folder: Chroma's data folder, which is open.

    Returns:
        The size of Chroma's database in it, without the folders of the indexes.

    Raises:
        FolderUnusableError: the folder is gone or read-only, or its disk is full.
    """
    try:
        size = (folder / DATABASE).stat().st_size
        free = shutil.disk_usage(folder).free
    except OSError:
        raise FolderUnusableError("The data folder is gone") from None
    if not os.access(folder, os.W_OK) or not os.access(folder / DATABASE, os.W_OK):
        raise FolderUnusableError("The data folder is read-only")
    if free < MIN_FREE_BYTES:
        raise FolderUnusableError("The disk of the data folder is full")
    return size
