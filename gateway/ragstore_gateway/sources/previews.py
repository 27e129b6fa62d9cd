"""`Previews`: what a run of a source would do, without doing it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from ragstore_gateway.configurations.source import Source
from ragstore_gateway.sources.errors import TooManyPreviews
from ragstore_gateway.sources.schemas import Preview, PreviewedPage, PreviewOutcome
from ragstore_gateway.sources.source_documents import SourceDocuments
from ragstore_gateway.sources.source_kind import SourceKind
from ragstore_gateway.sources.visit import FOUND, CrawlEnd, KnownPage, Visit

MAX_PREVIEWS: Final = 3
"""Maximum number of concurrent previews of a process: each sends requests to a website while its caller waits."""

PREVIEW_SECONDS: Final = 60.0
MAX_PREVIEWED: Final = 100
"""Maximum time and maximum number of visits of a preview."""

MAX_MISSING: Final = 1000
"""Maximum number of missing pages that a preview lists. A source has up to 50,000."""

LIMIT: Final = "preview_limit"
TAKEN: Final = "name_taken"


class Previews:
    """Previews of sources.

    Args:
        documents: the documents of sources.
    """

    def __init__(self, documents: SourceDocuments) -> None:
        self._documents = documents
        self._slots = asyncio.Semaphore(MAX_PREVIEWS)

    async def preview(self, base_id: str, source: Source, kind: SourceKind) -> Preview:
        """Visit the pages of a source. Nothing is embedded or stored.

        Args:
            base_id: the knowledge base.
            kind: its type.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            TooManyPreviews: the maximum number of previews is in progress.
        """
        if self._slots.locked():
            raise TooManyPreviews(f"{MAX_PREVIEWS} previews are in progress; try again later")
        async with self._slots:
            return await self._preview(base_id, source, kind)

    async def _preview(self, base_id: str, source: Source, kind: SourceKind) -> Preview:
        known = await self._documents.load(base_id, source.name)

        async def find(url: str) -> KnownPage | None:
            return await self._documents.page(known[url]) if url in known else None

        visited: list[Visit] = []
        end = CrawlEnd(complete=False, reason=LIMIT)
        crawl = kind.open(base_id, source, find)
        try:
            async with asyncio.timeout(PREVIEW_SECONDS), aclosing(crawl.visits()) as visits:
                async for visit in visits:
                    # 100 pages of 5 MiB would need as much memory as the container has.
                    visited.append(replace(visit, content=b"", links=()))
                    if len(visited) >= MAX_PREVIEWED:
                        break
                else:
                    end = crawl.end
        except TimeoutError:
            pass
        names = {visit.url: kind.document_name(visit.url) for visit in visited if visit.outcome == "changed"}
        owners = await self._documents.owners(base_id, source.name, names)
        pages = []
        found: set[str] = set()
        replaced: set[str] = set()
        for visit in visited:
            owner = owners.get(visit.url)
            is_taken = owner is not None and owner != visit.url and (not owner or owner in found)
            pages.append(_page(visit, is_known=owner in known, is_taken=is_taken))
            if visit.outcome in FOUND:
                found.add(visit.url)
            if owner and not is_taken:
                replaced.add(owner)
        missing: list[KnownPage] = []
        if end.complete:
            listed = replaced.union(visit.url for visit in visited)
            missing = [each.page for url, each in known.items() if url not in listed]
            pages += [PreviewedPage(page.url, "missing", "", page.title, 0) for page in missing[:MAX_MISSING]]
        return Preview(pages, end.complete, end.reason, len(missing))


def _page(visit: Visit, *, is_known: bool, is_taken: bool) -> PreviewedPage:
    outcome: PreviewOutcome
    if visit.outcome != "changed":
        outcome, reason = visit.outcome, visit.reason
    elif is_taken:
        outcome, reason = "skipped", TAKEN
    else:
        outcome, reason = "changed" if is_known else "added", visit.reason
    return PreviewedPage(visit.url, outcome, reason, visit.title, visit.depth)
