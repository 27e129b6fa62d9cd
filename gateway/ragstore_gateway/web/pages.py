"""`PageReader`: the texts of pages, fetched and extracted concurrently."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import urlsplit

from ragstore.kit.byte_budget import give_back, reserve
from ragstore.kit.errors import ServiceError
from ragstore_gateway.errors import ExtractionTimeout
from ragstore_gateway.extraction.extracted import Extracted, PageLinks
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.extraction.protocol import Output
from ragstore_gateway.fetching.errors import FetchTimeout, PageUnavailable, ResponseTooLarge
from ragstore_gateway.fetching.fetched import Fetched
from ragstore_gateway.fetching.fetcher import Fetcher

T = TypeVar("T")

MAX_TEXTS_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of the texts of all pages of one request together, HTML included, as UTF-8."""

MAX_PAGES_IN_PROGRESS: Final = 8
"""Maximum number of pages of one request that are fetched or extracted at the same time."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page that was read, or why it was not.

    Attributes:
        url: the URL of the request.
        fetched: the response, without its body; None if there was none.
        extracted: its text; None if there is none.
        html: its main content as HTML, where that was requested.
        error: why it has no text.
    """

    url: str
    fetched: Fetched | None = None
    extracted: Extracted | None = None
    html: str = ""
    error: ServiceError | None = None


class _TextBudget:
    """The texts that one request may still have."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = max_bytes

    def check(self) -> None:
        """Check that there is room for a text, before its page is fetched.

        Raises:
            ResponseTooLarge: there is none.
        """
        if self._left <= 0:
            raise self._too_large()

    def take(self, size: int) -> None:
        """Take room for a text.

        Raises:
            ResponseTooLarge: there is not enough.
        """
        if size > self._left:
            raise self._too_large()
        self._left -= size

    def _too_large(self) -> ResponseTooLarge:
        return ResponseTooLarge(f"The texts of the pages of one request together have at most {self._max_bytes} bytes")


class PageReader:
    """Reads pages.

    Args:
        fetcher: fetches them.
        extractor: extracts their texts.
        extraction_seconds: time limit of an extraction, the wait for a process included.
    """

    def __init__(self, fetcher: Fetcher, extractor: Extractor, extraction_seconds: float) -> None:
        self._fetcher = fetcher
        self._extractor = extractor
        self._extraction_seconds = extraction_seconds

    @property
    def max_seconds(self) -> float:
        """Maximum time for pages, however many they are."""
        return self._fetcher.rules.timeout_seconds + self._extraction_seconds

    async def read(self, urls: Sequence[str], output: Output = "text") -> list[Page]:
        """Read pages. One that cannot be read does not affect the others.

        Args:
            urls: their URLs. One that is repeated is read once.
            output: the form of their texts; `html` for the plain text and the HTML of the main content.

        Returns:
            The pages, in order. Pages whose texts exceed `MAX_TEXTS_BYTES` together have the error `ResponseTooLarge`.

        Raises:
            Overloaded: there was no room for the pages and their texts in the budget of bytes in flight.
        """
        return await self.read_as(urls, lambda page: page, output)

    async def read_as(self, urls: Sequence[str], form: Callable[[Page], T], output: Output = "text") -> list[T]:
        """Read pages, and keep the result of a function for each; see `read`.

        Args:
            form: converts a page that was read. It is called in a thread, and the page is not kept.
            output: the form of their texts.

        Returns:
            The results, in the order of the URLs.

        Raises:
            Overloaded: there was no room for the pages and their texts in the budget of bytes in flight.
        """
        repetitions = Counter(urls)
        pages_bytes, texts_bytes = self._estimate(len(repetitions), output)
        await reserve(pages_bytes + texts_bytes)
        texts = _TextBudget(MAX_TEXTS_BYTES)
        in_progress = asyncio.Semaphore(MAX_PAGES_IN_PROGRESS)
        end = asyncio.get_running_loop().time() + self.max_seconds

        async def read_one(url: str) -> T:
            try:
                async with asyncio.timeout_at(end), in_progress:
                    page = await self._read(url, output, texts, repetitions[url])
                    return await asyncio.to_thread(form, page)
            except TimeoutError:
                return form(Page(url, error=FetchTimeout("The pages before it took all the time of the request")))

        made = await asyncio.gather(*map(read_one, repetitions))
        give_back(pages_bytes)
        found = dict(zip(repetitions, made, strict=True))
        return [found[url] for url in urls]

    def _estimate(self, count: int, output: Output) -> tuple[int, int]:
        """The memory for the pages in progress, and for all texts with their JSON."""
        page_bytes = self._fetcher.rules.max_bytes
        texts_bytes = min(count * page_bytes * (2 if output == "html" else 1), MAX_TEXTS_BYTES)
        return min(count, MAX_PAGES_IN_PROGRESS) * page_bytes, 2 * texts_bytes

    async def text(self, url: str) -> str:
        """The text of one page, however long it is.

        Raises:
            ServiceError: it cannot be read.
        """
        page = await self._read(url, "text", _TextBudget(sys.maxsize), 1)
        if page.extracted is None:
            raise page.error or PageUnavailable("The page has no text")
        return page.extracted.text

    async def document(self, response: Fetched) -> tuple[Extracted, PageLinks]:
        """The text of a page that was fetched, and its links.

        Args:
            response: the page.

        Returns:
            The text, which is empty if an HTML page has none, and the links of an HTML page.

        Raises:
            ServiceError: its text cannot be extracted.
        """
        with _timely():
            async with asyncio.timeout(self._extraction_seconds):
                return await self._extractor.extract_page(
                    response.body,
                    media_type=response.headers.get("Content-Type", ""),
                    name=file_name(response.final_url),
                    url=response.final_url,
                )

    async def _read(self, url: str, output: Output, texts: _TextBudget, repetitions: int) -> Page:
        fetched: Fetched | None = None
        try:
            texts.check()
            response = await self._fetcher.fetch(url)
            fetched = response.without_body()
            if not response.ok:
                raise PageUnavailable(f"The site responded with status {response.status}")
            forms = [await self._extract(response, form) for form in _forms(output)]
            html = forms[1].text if len(forms) > 1 and forms[0].media_type == "text/html" else ""
            texts.take(repetitions * await asyncio.to_thread(_size, forms[0].text, html))
        except ServiceError as error:
            return Page(url, fetched, error=error)
        return Page(url, fetched, forms[0], html)

    async def _extract(self, response: Fetched, output: Output) -> Extracted:
        with _timely():
            async with asyncio.timeout(self._extraction_seconds):
                return await self._extractor.extract(
                    response.body,
                    media_type=response.headers.get("Content-Type", ""),
                    name=file_name(response.final_url),
                    output=output,
                    url=response.final_url,
                )


def file_name(url: str) -> str:
    """The file name of a page: the last segment of its path."""
    return urlsplit(url).path.rpartition("/")[2]


@contextmanager
def _timely() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise ExtractionTimeout("The text of the page was not extracted in time") from None


def _size(*texts: str) -> int:
    return sum(len(text) if text.isascii() else len(text.encode("utf-8", "replace")) for text in texts)


def _forms(output: Output) -> Iterable[Output]:
    return ("text", "html") if output == "html" else (output,)
