"""Ends what would last for years, such as a pattern that tries all ways to divide its input."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 20
"""A thousand times what the work takes."""


class Hung(Exception):
    """The work did not end."""


@contextmanager
def ends() -> Iterator[None]:
    """Raise if the block does not end. The signal reaches patterns that are being matched, too."""

    def end(*_: object) -> None:
        raise Hung

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
