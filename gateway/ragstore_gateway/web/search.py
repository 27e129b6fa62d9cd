"""`WebSearch`: the results of a SearxNG server, ranked by embeddings where that is requested."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec

from ragstore.kit.byte_budget import reserved
from ragstore_client.context import Passage, maximal_marginal_relevance
from ragstore_gateway.embeddings.embedder import Embedder, normalized
from ragstore_gateway.fetching.errors import (
    FetchError,
    FetchTimeout,
    SearchBusy,
    SearchFailed,
    SearchNotConfigured,
    SearchTimeout,
)
from ragstore_gateway.fetching.fetched import Fetched
from ragstore_gateway.fetching.fetcher import Fetcher
from ragstore_gateway.fetching.rules import AllowedHosts, FetchRules
from ragstore_gateway.fetching.urls import DEFAULT_PORT
from ragstore_gateway.settings import variable
from ragstore_gateway.web.schemas import SearchResult

MAX_BYTES: Final = 5 * 1024 * 1024
MAX_PAGES: Final = 3
"""Pages of results that are read until there are enough."""

FAN_OUT: Final = 3
"""Results that are ranked for each result that is returned."""

MAX_TITLE: Final = 500
MAX_SNIPPET: Final = 2000
MAX_URL: Final = 8192
"""Maximum lengths in characters. A longer title or snippet is cut, and a result with a longer address is left out."""

MAX_SEARCHES: Final = 32


class _Result(msgspec.Struct, frozen=True):
    url: str = ""
    title: str | None = ""
    content: str | None = ""
    score: float | None = 0.0


class _Results(msgspec.Struct, frozen=True):
    results: list[msgspec.Raw]


_results: Final = msgspec.json.Decoder(_Results)
_result_of: Final = msgspec.json.Decoder(_Result)


class WebSearch:
    """Searches the web. It works while the block of `running` runs.

    Args:
        url: the address of a SearxNG server; empty if there is none. It may be in the inner network.
        embedder: embeds queries and results.
        diversity: weight of diversity in the ranking, 0 to 1.
        timeout_seconds: time limit of a page of results.
    """

    def __init__(self, url: str, embedder: Embedder, diversity: float, timeout_seconds: float) -> None:
        self._base = url.rstrip("/")
        self._embedder = embedder
        self._diversity = diversity
        self._fetcher = Fetcher(_rules(self._base, timeout_seconds))

    @property
    def max_seconds(self) -> float:
        """Maximum time for the results, before they are ranked."""
        return MAX_PAGES * self._fetcher.rules.timeout_seconds

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Open the connections; close them at the end."""
        async with self._fetcher.running():
            yield

    async def search(self, query: str, k: int, language: str, *, rank: bool) -> list[SearchResult]:
        """Search the web.

        Args:
            k: maximum number of results.
            language: the language of the results; empty for any.
            rank: whether the results are chosen by maximal marginal relevance to the query, among three times as many.

        Returns:
            The results, best first, with web addresses only, each address once.

        Raises:
            SearchNotConfigured: there is no server.
            SearchTimeout: it did not respond in time.
            SearchBusy: it, or all of its engines, are at a limit.
            SearchFailed: it failed, or its response is of another form.
            Overloaded: there was no room for the results in the budget of bytes in flight.
            ServiceError: the results could not be embedded.
        """
        if not self._base:
            raise SearchNotConfigured(f"There is no search engine: set {variable('searxng_url')} to a SearxNG server")
        # A page of results, and what is decoded of it.
        async with reserved(2 * MAX_BYTES):
            results = await self._results(query, language, FAN_OUT * k if rank else k)
        return await self._ranked(query, results, k) if rank else results[:k]

    async def _results(self, query: str, language: str, wanted: int) -> list[SearchResult]:
        found: dict[str, SearchResult] = {}
        for page in range(1, MAX_PAGES + 1):
            before = len(found)
            for result in await self._page(query, language, page):
                if urlsplit(result.url).scheme in ("http", "https"):
                    found.setdefault(result.url, result)
            if len(found) >= wanted or len(found) == before:
                break
        return list(found.values())

    async def _page(self, query: str, language: str, page: int) -> list[SearchResult]:
        fields = {"q": query, "format": "json", "pageno": page, **({"language": language} if language else {})}
        try:
            response = await self._fetcher.fetch(f"{self._base}/search?{urlencode(fields)}")
        except FetchTimeout:
            raise SearchTimeout("The search engine did not respond in time") from None
        except FetchError as error:
            raise SearchFailed("The search engine cannot be reached").because(error.detail) from None
        _check(response)
        try:
            results = _results.decode(response.body).results
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise SearchFailed("The search engine's response is not one of SearxNG") from None
        return [_result(result) for each in results if (result := _read(each)) and _is_url(result.url)]

    async def _ranked(self, query: str, results: list[SearchResult], k: int) -> list[SearchResult]:
        if not results:
            return []
        own = (await self._embedder.embed([query], "query"))[0]
        texts = [f"{result.title}\n{result.snippet}".strip() or result.url for result in results]
        vectors = normalized(await self._embedder.embed(texts, "document"))
        similarities = vectors @ normalized(own[None])[0]
        passages = [
            Passage(id=str(index), text=text, embedding=vector)
            for index, (text, vector) in enumerate(zip(texts, vectors, strict=True))
        ]
        chosen = maximal_marginal_relevance(own, passages, k=k, diversity=self._diversity)
        return [
            msgspec.structs.replace(results[int(each.id)], score=round(float(similarities[int(each.id)]), 6))
            for each in chosen
        ]


def _rules(url: str, timeout_seconds: float) -> FetchRules:
    parts = urlsplit(url)
    endpoint = (parts.hostname or "", parts.port or DEFAULT_PORT.get(parts.scheme, 0))
    return FetchRules(
        timeout_seconds=timeout_seconds,
        max_bytes=MAX_BYTES,
        max_redirects=0,
        max_fetches=MAX_SEARCHES,
        max_fetches_per_host=MAX_SEARCHES,
        allowed=AllowedHosts(endpoints=frozenset({endpoint})),
        robots=False,
    )


def _check(response: Fetched) -> None:
    """Check the status of a response."""
    if response.status == 403:
        raise SearchFailed("The search engine does not allow JSON: add it to search.formats of SearxNG's settings")
    if response.status in (429, 503):
        raise SearchBusy("The search engine is at its limit")
    if not response.ok:
        raise SearchFailed(f"The search engine responded with status {response.status}")


def _read(result: msgspec.Raw) -> _Result | None:
    """A result; None for one of another form, such as one without an address."""
    try:
        return _result_of.decode(result)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _result(result: _Result) -> SearchResult:
    score = result.score or 0.0
    return SearchResult(
        _one_line(result.title, MAX_TITLE),
        result.url,
        _one_line(result.content, MAX_SNIPPET),
        score if math.isfinite(score) else 0.0,
    )


def _one_line(text: str | None, max_characters: int) -> str:
    # Cut first: spaces may be many times as long as what is left of them.
    return " ".join((text or "")[: 4 * max_characters].split())[:max_characters]


def _is_url(text: str) -> bool:
    try:
        return len(text) <= MAX_URL and bool(urlsplit(text).hostname)
    except ValueError:
        return False
