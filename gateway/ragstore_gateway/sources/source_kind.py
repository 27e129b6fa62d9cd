"""`SourceKind`: what runs need to know about a type of sources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from ragstore_gateway.configurations.source import Source, SourceSettings
from ragstore_gateway.sources.visit import CrawlEnd, KnownPages, Visit


class Visits(Protocol):
    """The visits of all that a source has, such as a crawl."""

    @property
    def end(self) -> CrawlEnd:
        """How they ended; known after the last one."""

    def visits(self) -> AsyncGenerator[Visit, None]:
        """The visits, in any order."""


@dataclass(frozen=True, slots=True)
class SourceKind:
    """A type of sources.

    Attributes:
        open: begins the visits of a source of a knowledge base; the last argument finds what is known.
        document_name: the name of the document of a URL or a file.
        max_missed: the number of complete runs in a row without a page, or a file, after which it is removed.
    """

    open: Callable[[str, Source, KnownPages], Visits]
    document_name: Callable[[str], str]
    max_missed: Callable[[SourceSettings], int]


async def with_pauses(visits: AsyncGenerator[Visit, None], seconds: float) -> AsyncGenerator[Visit | None, None]:
    """Each visit, and None whenever there was none for a time. The visits are closed at the end.

    Args:
        seconds: the time.
    """
    async with aclosing(visits):
        while True:
            following = asyncio.create_task(_next(visits))
            try:
                while not (await asyncio.wait([following], timeout=seconds))[0]:
                    yield None
                visit = following.result()
            finally:
                if following.cancel():
                    await asyncio.gather(following, return_exceptions=True)
            if visit is None:
                return
            yield visit


async def _next(visits: AsyncGenerator[Visit, None]) -> Visit | None:
    """The next visit; None at the end."""
    return await anext(visits, None)
