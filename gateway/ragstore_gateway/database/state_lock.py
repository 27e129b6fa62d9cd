"""The lock of a folder with the gateway's state in SQLite: one gateway uses it at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

LOCK_NAME: Final = ".gateway.lock"
LOCK_SECONDS: Final = 5.0
"""How long to wait for the previous process, which may be closing its database."""


class StateInUse(Exception):
    """Another gateway uses the folder."""


def lock_state(folder: Path) -> FileLock:
    """Lock a folder for this process.

    Two gateways with one database would share its queue, but each might write the vectors into another store.

    Args:
        folder: the folder, which exists.

    Returns:
        The lock. The operating system releases it when the process ends.

    Raises:
        StateInUse: another process holds it.
        OSError: the lock file cannot be written.
    """
    lock = FileLock(folder / LOCK_NAME)
    try:
        lock.acquire(timeout=LOCK_SECONDS)
    except Timeout:
        raise StateInUse from None
    return lock
