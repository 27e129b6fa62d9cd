"""The processes of a pool, which `ProcessPoolExecutor` has no public way to reach before Python 3.14."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing.process import BaseProcess


def processes_of(pool: ProcessPoolExecutor) -> list[BaseProcess]:
    """The running processes of a pool. A test notices when the private attribute changes.

    Args:
        pool: the pool, before its shutdown.

    Returns:
        Its processes.
    """
    return list(pool._processes.values())
