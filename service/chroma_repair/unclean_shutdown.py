"""The marker by which a process that opens Chroma's data notices that the previous one was killed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from chroma_repair.index_repair import RepairResult

MARKER_NAME: Final = ".ragstore.open"


class DirtyMarker:
    """A file that exists while Chroma is open, and so after an unclean shutdown.

    Args:
        folder: Chroma's data folder.

    Attributes:
        found: whether the file existed already: the last shutdown was unclean.
        suspect_collections: the collections that the file named, whose indexes are to be rebuilt.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / MARKER_NAME
        self.found = self._file.exists()
        self.suspect_collections = self._file.read_text().split() if self.found else []

    def repair(self) -> list[RepairResult]:
        """Repair the damage of an unclean shutdown; do nothing after a clean one.

        Returns:
            The collections that were damaged. None when nothing can be written: a full disk must not prevent the other
            collections from being read.
        """
        if not self.found:
            return []
        # Imported here, so that a process that starts after a clean shutdown does not load it.
        import sqlite3

        from chroma_repair.index_repair import repair

        with suppress(OSError, sqlite3.Error):
            return repair(self._folder, self.suspect_collections)
        return []

    def write(self, suspect_collection: str = "") -> None:
        """Mark Chroma as open.

        Args:
            suspect_collection: the collection to suspect if this process does not survive its next step.
        """
        with suppress(OSError):  # on a full disk
            self._file.write_text(suspect_collection)

    def remove(self) -> None:
        """Mark Chroma as closed cleanly."""
        self._file.unlink(missing_ok=True)
