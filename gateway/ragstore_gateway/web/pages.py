"""`PageReader`: the texts of pages, fetched and extracted concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from ragstore.kit.byte_budget import hold, shrink
from ragstore.kit.errors import ServiceError
from ragstore_gateway.errors import ExtractionTimeout
from ragstore_gateway.extraction.extracted import Extracted, PageLinks
from ragstore_gateway.extraction.extractor import Extractor
from ragstore_gateway.extraction.protocol import Output
from ragstore_gateway.web.errors import PageUnavailable
from ragstore_gateway.web.fetching.fetched import Fetched
from ragstore_gateway.web.fetching.fetcher import Fetcher


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


class _Held:
    """The bytes of the bodies that a request holds. They count in the budget of all bodies in flight."""

    def __init__(self) -> None:
        self._size = 0

    async def add(self, size: int) -> None:
        self._size += size
        await hold(self._size)

    def remove(self, size: int) -> None:
        self._size -= size
        shrink(self._size)


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
            The pages, in order.
        """
        held = _Held()
        distinct = list(dict.fromkeys(urls))
        pages = await asyncio.gather(*(self._read(url, output, held) for url in distinct))
        found = dict(zip(distinct, pages, strict=True))
        return [found[url] for url in urls]

    async def text(self, url: str) -> str:
        """The text of one page.

        Args:
            url: its URL.

        Raises:
            ServiceError: it cannot be read.
        """
        (page,) = await self.read([url])
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

    async def _read(self, url: str, output: Output, held: _Held) -> Page:
        fetched: Fetched | None = None
        try:
            response = await self._fetcher.fetch(url)
            fetched = response.without_body()
            if not response.ok:
                raise PageUnavailable(f"The site responded with status {response.status}")
            await held.add(len(response.body))
            try:
                forms = [await self._extract(response, form) for form in _forms(output)]
            finally:
                held.remove(len(response.body))
        except ServiceError as error:
            return Page(url, fetched, error=error)
        html = forms[1].text if len(forms) > 1 and forms[0].media_type == "text/html" else ""
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
    """The file name of a page: the last segment of its path.

    Args:
        url: its URL.
    """
    return urlsplit(url).path.rpartition("/")[2]


@contextmanager
def _timely() -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise ExtractionTimeout("The text of the page was not extracted in time") from None


def _forms(output: Output) -> Iterable[Output]:
    return ("text", "html") if output == "html" else (output,)
