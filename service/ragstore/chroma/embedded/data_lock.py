"""The lock on embedded Chroma's data folder. Chroma itself would let two processes in, and lose data."""

from __future__ import annotations

import os
from typing import Final

from filelock import FileLock, Timeout

LOCK_NAME: Final = ".ragstore.lock"

LOCK_SECONDS: Final = 5.0
"""Maximum wait for a predecessor to release it: a process that was killed still finishes its write."""


class DataInUse(Exception):
    """Another process has locked the folder."""


def lock_data(path: str) -> FileLock:
    """Lock a folder for this process.

    Args:
        path: the folder; created when it does not exist.

    Returns:
        The lock, acquired.

    Raises:
        DataInUse: another process has locked it.
        OSError: it cannot be created or written.
    """
    os.makedirs(path, exist_ok=True)
    lock = FileLock(os.path.join(path, LOCK_NAME))
    try:
        lock.acquire(timeout=LOCK_SECONDS)
    except Timeout:
        raise DataInUse("The data is in use by another process") from None
    return lock
