"""`Frontier`: the pages that a crawl has still to visit, by their number of links from its start."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import Final

MAX_WAITING: Final = 20_000
"""Maximum number of pages that wait. Sites with calendars and filters have any number of URLs."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A page to visit.

    Attributes:
        url: its URL in normal form.
        depth: the number of links from the start page or a sitemap to it.
        ignores_canonical: whether it is a document of its own although it names another page as canonical.
    """

    url: str
    depth: int
    ignores_canonical: bool = False


class Frontier:
    """The pages that wait. Each is visited once.

    Attributes:
        is_full: whether a page was left out because too many wait.
    """

    def __init__(self) -> None:
        self.is_full = False
        self._waiting: dict[str, Candidate] = {}
        self._seen: set[str] = set()
        self._order: list[tuple[int, int, str]] = []
        self._number = 0

    def add(self, url: str, depth: int) -> None:
        """Add a page, unless it was visited. If it waits already, the lesser depth counts.

        Args:
            url: its URL in normal form.
        """
        if url in self._seen:
            return
        waiting = self._waiting.get(url)
        if waiting is None and len(self._waiting) >= MAX_WAITING:
            self.is_full = True
        elif waiting is None:
            self._push(Candidate(url, depth))
        elif depth < waiting.depth:
            self._push(replace(waiting, depth=depth))

    def add_again(self, candidate: Candidate) -> None:
        """Add a page that was visited.

        Args:
            candidate: the page.
        """
        self._push(candidate)

    def waits(self, url: str) -> bool:
        """Whether a page waits.

        Args:
            url: its URL in normal form.
        """
        return url in self._waiting

    def take(self, url: str, depth: int) -> Candidate | None:
        """Take a page out of turn.

        Args:
            url: its URL in normal form.
            depth: its depth, if it does not wait with a lesser one.

        Returns:
            The page; None if it was visited.
        """
        if url in self._seen:
            return None
        self._seen.add(url)
        waiting = self._waiting.pop(url, None)
        return waiting if waiting and waiting.depth <= depth else Candidate(url, depth)

    def next(self) -> Candidate | None:
        """Take the next page; None if there is none."""
        while self._order:
            depth, _, url = heapq.heappop(self._order)
            candidate = self._waiting.get(url)
            # Otherwise the page was taken already, or waits with a lesser depth.
            if candidate is not None and candidate.depth == depth:
                del self._waiting[url]
                self._seen.add(url)
                return candidate
        return None

    def _push(self, candidate: Candidate) -> None:
        self._waiting[candidate.url] = candidate
        self._number += 1
        heapq.heappush(self._order, (candidate.depth, self._number, candidate.url))
