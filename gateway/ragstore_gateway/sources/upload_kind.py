"""`UploadVisits`: a run's visits of the files of an upload source."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from time import monotonic
from typing import Final

from ragstore.kit.errors import ServiceError
from ragstore_gateway.configurations.source import Source
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.sources.files import NewFile, SourceFiles, StoredFile, location
from ragstore_gateway.sources.source_kind import SourceKind, Visits
from ragstore_gateway.sources.visit import TIME_BUDGET, CrawlEnd, KnownPages, Visit

TEXT: Final = "text/plain; charset=utf-8"

MAX_MISSED: Final = 1
"""A file that is not there any more was deleted by a person, which is no failure that may pass."""


class UploadVisits:
    """Visits the files of a source. One whose bytes have not changed is neither read nor extracted.

    Args:
        files: the files of all sources.
        extractor: extracts texts.
        base_id: the knowledge base.
        known: finds what earlier runs have stored.
    """

    def __init__(
        self, files: SourceFiles, extractor: Extractor, base_id: str, source: Source, known: KnownPages
    ) -> None:
        self._files = files
        self._extractor = extractor
        self._base_id = base_id
        self._source = source
        self._known = known
        self._end = CrawlEnd(complete=False)

    @property
    def end(self) -> CrawlEnd:
        """How the visits ended."""
        return self._end

    async def visits(self) -> AsyncGenerator[Visit, None]:
        """The visits, by name of the file."""
        deadline = monotonic() + 60 * self._source.settings.time_budget_minutes
        for file in (await self._files.names(self._base_id, self._source.name)).values():
            if monotonic() >= deadline:
                self._end = CrawlEnd(complete=False, reason=TIME_BUDGET)
                return
            yield await self._visit(file)
        self._end = CrawlEnd(complete=True)

    async def _visit(self, file: StoredFile) -> Visit:
        url = location(self._source.name, file.name)
        known = await self._known(url)
        visit = Visit(url, "changed", content_hash=file.content_hash, media_type=file.media_type, is_new=known is None)
        if known is not None and known.content_hash == file.content_hash:
            return replace(visit, outcome="unchanged", title=known.title, characters=known.characters)
        content = await self._files.read(self._base_id, self._source.name, file.name)
        if content is None:
            return replace(visit, outcome="gone", reason="deleted")
        try:
            return await self._extracted(visit, content)
        except ServiceError as error:
            return replace(visit, outcome="failed", reason=error.code)

    async def _extracted(self, visit: Visit, file: NewFile) -> Visit:
        """The visit with the content to ingest: the file, or the beginning of its text if that is too long."""
        extracted = await self._extractor.extract(file.content, media_type=file.media_type, name=file.name)
        text = extracted.text[: self._source.settings.max_content_length]
        visit = replace(visit, title=extracted.title, characters=len(text))
        if len(text) < len(extracted.text):
            return replace(visit, content=text.encode("utf-8", "replace"), media_type=TEXT)
        return replace(visit, content=file.content)


def upload_kind(files: SourceFiles, extractor: Extractor) -> SourceKind:
    """The type `upload`.

    Args:
        files: the files of all sources.
        extractor: extracts texts.
    """

    def open_(base_id: str, source: Source, known: KnownPages) -> Visits:
        return UploadVisits(files, extractor, base_id, source, known)

    return SourceKind(open_, lambda name: name, lambda _: MAX_MISSED)
