"""`WaitingPages`: the changed pages of a run whose documents are accepted with the next transaction."""

from __future__ import annotations

from collections.abc import Iterator

from ragstore_gateway.ingestion.queue import MAX_BYTES, MAX_DOCUMENTS
from ragstore_gateway.sources.document_states import ChangedPage


class WaitingPages:
    """Pages that fill at most one transaction, which is one job. A larger page is alone."""

    def __init__(self) -> None:
        self._pages: dict[str, ChangedPage] = {}
        self._bytes = 0

    def __len__(self) -> int:
        """The number of pages."""
        return len(self._pages)

    def __iter__(self) -> Iterator[ChangedPage]:
        """The pages, in the order in which the run has found them."""
        return iter(self._pages.values())

    def has(self, name: str) -> bool:
        """Whether one of the pages has the document of a name."""
        return name in self._pages

    def has_room_for(self, page: ChangedPage) -> bool:
        """Whether a page can be added."""
        fits = len(self) < MAX_DOCUMENTS and self._bytes + len(page.visit.content) <= MAX_BYTES
        return not self._pages or (fits and page.name not in self._pages)

    def add(self, page: ChangedPage) -> None:
        """Add a page, for which there must be room."""
        self._pages[page.name] = page
        self._bytes += len(page.visit.content)

    def remove(self, page: ChangedPage) -> None:
        """Remove a page."""
        del self._pages[page.name]
        self._bytes -= len(page.visit.content)
