"""Finds the processes that have a folder's files open: Chroma takes no lock, so nothing else shows that it runs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

PROCESSES: Final = Path("/proc")


class User(NamedTuple):
    """A process that has a file open."""

    process_id: int
    name: str


def users_of(folder: Path) -> list[User]:
    """The other processes that have a file of a folder open.

    Processes of other users, in other containers and on other machines are not found, nor is any without `/proc`.
    """
    beginning = f"{folder.resolve()}{os.sep}"
    own = os.getpid()
    found = []
    # A process may end, and may belong to another user.
    with suppress(OSError):
        for entry in sorted(PROCESSES.iterdir()):
            if entry.name.isdecimal() and int(entry.name) != own and _has_open(entry, beginning):
                found.append(User(int(entry.name), _name(entry)))
    return found


def _has_open(process: Path, beginning: str) -> bool:
    with suppress(OSError):
        for descriptor in (process / "fd").iterdir():
            with suppress(OSError):
                if os.readlink(descriptor).startswith(beginning):
                    return True
    return False


def _name(process: Path) -> str:
    with suppress(OSError):
        return (process / "comm").read_text().strip()
    return "?"
