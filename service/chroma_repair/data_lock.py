"""A lock file in Chroma's data folder. Chroma itself lets two processes open the same data, and loses documents."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

DATABASE: Final = "chroma.sqlite3"
"""Chroma's database, in its data folder."""

LOCK_NAME: Final = ".ragstore.lock"
LOCK_SECONDS: Final = 5.0
"""How long to wait for the previous process: one that was killed still finishes its write."""


class DataInUse(Exception):
    """Another process holds the lock."""

    def __init__(self) -> None:
        super().__init__("The data is in use by another process")


def lock_data(folder: Path) -> FileLock:
    """Lock a data folder for this process.

    Processes that do not take this lock are not noticed: a Chroma server takes none.

    Args:
        folder: Chroma's data folder; created when it does not exist.

    Returns:
        The lock. The operating system releases it when the process ends.

    Raises:
        DataInUse: another process holds it.
        OSError: the folder cannot be created, or the lock file cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK_NAME)
    try:
        lock.acquire(timeout=LOCK_SECONDS)
    except Timeout:
        raise DataInUse from None
    return lock
