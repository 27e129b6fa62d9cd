"""A progress bar over documents on standard error, if that is a terminal."""

from __future__ import annotations

import sys
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from ragstore_client.gateway import DocumentProgress


class _Rate(ProgressColumn):
    """Documents per second."""

    def render(self, task: Task) -> Text:
        # Since the start: documents are few and slow, so that a moving average jumps.
        return Text(f"{task.completed / task.elapsed:.1f} documents/s" if task.elapsed else "")


class ProgressBar:
    """Counts documents that are done, and shows them. A context manager.

    Args:
        title: the work, such as `ingest`.
        total: number of documents.
        shown: whether a bar may be shown.
    """

    def __init__(self, title: str, total: int, *, shown: bool) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
            console=console,
            disable=not (shown and console.is_terminal),
            # Lines for a pipe or a file are no part of the terminal.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._task = self._progress.add_task(title, total=total)
        self._title = title
        self._parts: dict[str, float] = {}
        self._done = 0

    def show(self, step: DocumentProgress) -> None:
        """Show a step of an ingestion."""
        self._waits(step.waiting_for)
        if step.ended:
            self.done(step.name)
        elif step.name:
            self._parts[step.name] = step.share
            self._update()

    def done(self, name: str) -> None:
        """Add a document that is done.

        Args:
            name: the document.
        """
        self._parts.pop(name, None)
        self._done += 1
        self._update()

    def _waits(self, reason: str) -> None:
        self._progress.update(self._task, description=f"{self._title} (waits: {reason})" if reason else self._title)

    def _update(self) -> None:
        self._progress.update(self._task, completed=self._done + sum(self._parts.values()))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
