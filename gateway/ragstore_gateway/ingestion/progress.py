"""The progress of a command, on a terminal."""

from __future__ import annotations

import time

import click

WIDTH = 30


class Progress:
    """A bar with the rate and the remaining time. It is written to stderr.

    Args:
        total: number of documents.
        shown: whether it is shown at all.
    """

    def __init__(self, total: int, shown: bool) -> None:
        self._total = total
        self._shown = shown
        self._done = 0
        self._started = time.monotonic()

    def advance(self) -> None:
        """Count a document, and show the bar."""
        self._done += 1
        if self._shown:
            click.echo(self.line(time.monotonic() - self._started), nl=False, err=True)

    def clear(self) -> None:
        """Remove the bar, before a line is printed."""
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)

    def line(self, seconds: float) -> str:
        """The bar.

        Args:
            seconds: the time since the start.
        """
        rate = self._done / seconds if seconds > 0 else 0.0
        filled = WIDTH * self._done // self._total
        left = round((self._total - self._done) / rate) if rate else 0
        bar = "#" * filled + "-" * (WIDTH - filled)
        return f"[{bar}] {self._done}/{self._total}, {rate:.1f}/s, {left // 60}:{left % 60:02} left"
