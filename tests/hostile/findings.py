"""Findings of the campaign."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Findings:
    """Findings of the campaign.

    Attributes:
        calls: number of responses by status, per area.
        wrong: what was wrong.
        figures: what was measured.
    """

    calls: dict[str, Counter[int]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    figures: dict[str, str] = field(default_factory=dict)

    def count(self, area: str, status: int) -> None:
        """Count a response."""
        self.calls.setdefault(area, Counter())[status] += 1

    def expect(self, holds: bool, what: str) -> None:
        """Note what is wrong unless it holds."""
        if not holds:
            self.wrong.append(what)
