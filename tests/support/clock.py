"""`Clock`: a clock that a test sets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Clock:
    """A clock that stands still unless the test moves it.

    Attributes:
        now: the time in seconds.
    """

    now: float = 0.0

    def __call__(self) -> float:
        """The time."""
        return self.now
