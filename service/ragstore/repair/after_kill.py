"""The note by which a process that opens Chroma's data learns that the last one was killed, and what it does then."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ragstore.repair.repairing import Repaired

OPEN_NAME: Final = ".ragstore.open"


class KillNote:
    """A file that is there while Chroma is open, and after a kill.

    Args:
        folder: where Chroma keeps its data.

    Attributes:
        was_killed: whether it was there already.
        suspects: the collections it named then, whose indexes are to be made anew.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / OPEN_NAME
        self.was_killed = self._file.exists()
        self.suspects = self._file.read_text().split() if self.was_killed else []

    def repair(self) -> list[Repaired]:
        """After a kill, repair what it has damaged.

        Returns:
            The collections that were damaged. None when nothing can be written: a full disk must not keep the others
            from being read.
        """
        if not self.was_killed:
            return []
        # Imported when it is needed, so that the service starts without it.
        import sqlite3

        from ragstore.repair.repairing import repair

        with suppress(OSError, sqlite3.Error):
            return repair(self._folder, self.suspects)
        return []

    def write(self, suspect: str = "") -> None:
        """Note that Chroma is open.

        Args:
            suspect: the collection to suspect if this process does not survive what comes next.
        """
        with suppress(OSError):  # on a full disk
            self._file.write_text(suspect)

    def remove(self) -> None:
        """Chroma was closed well."""
        self._file.unlink(missing_ok=True)
