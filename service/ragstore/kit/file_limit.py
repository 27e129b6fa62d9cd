"""The limit of open files of this process."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Final

if sys.platform != "win32":
    import resource

MAX_FILES: Final = 2**20
"""Maximum to raise the limit to. Systems without a limit report larger numbers, which cost memory in some libraries."""


def raise_file_limit() -> int:
    """Raise the limit as far as the system permits.

    Returns:
        The limit; 0 where there is none.
    """
    if sys.platform == "win32":
        return 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if wanted > soft >= 0:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
