"""A progress bar on standard error, if that is a terminal."""

from __future__ import annotations

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class TransferProgress:
    """A progress bar over documents. A context manager.

    Args:
        title: what is in progress, such as `export handbook`.
    """

    def __init__(self, title: str) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task(title, total=None)
        self.done = 0
        self.total: int | None = None

    def begin(self, total: int, done: int = 0) -> None:
        """Set the number of documents.

        Args:
            total: number of documents.
            done: number of documents that are done already.
        """
        self.total, self.done = total, done
        self._progress.update(self._task, total=total, completed=done)

    def advance(self, documents: int) -> None:
        """Add documents that are done."""
        self.done += documents
        self._progress.update(self._task, completed=self.done)

    def stop(self) -> None:
        """Stop to draw the bar."""
        self._progress.stop()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
