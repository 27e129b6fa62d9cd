"""A progress bar of an ingestion, by tqdm or rich, whichever is installed."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Protocol

from ragstore_client._batches import Outcome

if TYPE_CHECKING:
    from types import ModuleType

logger = logging.getLogger("ragstore_client")

_UNIT = "documents"


class Bar(Protocol):
    """A progress bar."""

    def advance(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Advance by some outcomes, and return them."""
        ...

    def close(self) -> None:
        """Remove the bar, or leave it as it is."""
        ...


class NoBar:
    """No progress bar."""

    def advance(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Return the outcomes."""
        return outcomes

    def close(self) -> None:
        """Do nothing."""


class _TqdmBar:
    def __init__(self, tqdm: ModuleType, total: int | None) -> None:
        self._bar = tqdm.tqdm(total=total, unit=f" {_UNIT}")

    def advance(self, outcomes: list[Outcome]) -> list[Outcome]:
        self._bar.update(len(outcomes))
        return outcomes

    def close(self) -> None:
        self._bar.close()


class _RichBar:
    def __init__(self, rich: ModuleType, total: int | None) -> None:
        self._bar = rich.Progress(transient=False)
        self._task = self._bar.add_task(_UNIT, total=total)
        self._bar.start()

    def advance(self, outcomes: list[Outcome]) -> list[Outcome]:
        self._bar.advance(self._task, len(outcomes))
        return outcomes

    def close(self) -> None:
        self._bar.stop()


def progress_bar(documents: object) -> Bar:
    """Show a progress bar on standard error.

    Args:
        documents: the documents; their number, where they have one, is the bar's total.

    Returns:
        A bar of tqdm, or else of rich; none, with a log line, when neither is installed.
    """
    total = len(documents) if hasattr(documents, "__len__") else None
    for name, bar in (("tqdm", _TqdmBar), ("rich.progress", _RichBar)):
        try:
            return bar(importlib.import_module(name), total)
        except ImportError:
            continue
    logger.warning("No progress bar is shown: neither tqdm nor rich is installed")
    return NoBar()
