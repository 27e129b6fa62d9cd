"""Builds the context of a question: from the query to the selected passages."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from ragstore_client._exceptions import InvalidConfiguration, InvalidInput, describe
from ragstore_client._tasks import cancel
from ragstore_client.context._cache import CacheKey, ContextCache
from ragstore_client.context._citations import Names
from ragstore_client.context._context import ChatContext, Reason, Timings
from ragstore_client.context._deduplicate import deduplicate
from ragstore_client.context._formats import STYLES, Style
from ragstore_client.context._order import by_similarity, maximal_marginal_relevance
from ragstore_client.context._passages import ContextPassage, Passage
from ragstore_client.context._rerank import Reranker, RerankFunction, apply_reranker
from ragstore_client.context._retrieve import Retrieval, StepFailure, search_all, to_failure
from ragstore_client.context._scopes import Scope, ScopedSearch, searches
from ragstore_client.context._select import Budget, select
from ragstore_client.context._settings import ContextSettings
from ragstore_client.context._sources import PassageSource, ScopedSource
from ragstore_client.context._threshold import above_threshold, is_short, skips_context
from ragstore_client.context._tokens import TokenCounter, estimate_tokens
from ragstore_client.rag._strategy import choose_query

if TYPE_CHECKING:
    from ragstore_client.rag._retriever import Retriever

logger = logging.getLogger("ragstore_client.context")

_REQUEST_IDENTIFIERS = frozenset({"x-request-id", "x-correlation-id", "traceparent", "tracestate", "baggage"})
"""Headers that identify a request. All others may decide what a caller can read, so they are part of a cache key."""

_PASSAGE_BYTES = 512
"""Approximate size of a passage without its text and metadata values, in the cache."""


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a context that is cached."""

    passages: list[ContextPassage] = []
    tokens: int = 0
    reason: Reason | None = None
    failures: list[StepFailure] = []
    timings: Timings = Timings()

    @property
    def size_bytes(self) -> int:
        """Its approximate size in memory."""
        texts = sum(sys.getsizeof(passage.text) for passage in self.passages)
        values = sum(
            sys.getsizeof(name) + sys.getsizeof(value)
            for passage in self.passages
            for name, value in passage.metadata.items()
        )
        return _PASSAGE_BYTES * (1 + len(self.passages)) + texts + values


class AsyncContextBuilder:
    """Builds contexts, for asyncio. Tasks may share it; it has to be closed no more than its source.

    Tasks of several event loops may share it if they may share its source. Equal questions are then one retrieval per
    event loop.

    Args:
        source: what is searched; a `ScopedSource` if a scope names collections. A `Retriever` is searched through an
            `ArchiveSource`, in all layers.
        settings: the settings; `ContextSettings()` when None. The environment is read by `ContextSettings.from_env()`
            only.
        scopes: the passages that may be used; all of the source's when None.
        style: the format, or its name: `sections`, `numbered`, `headings`, `archives`.
        count_tokens: counts the tokens of a text; an estimate on the high side when None.
        reranker: orders the passages, in place of similarity or MMR: an object with a coroutine method `rerank`, or a
            function of the query and the passages. A plain function runs in a thread. When it fails, similarity orders
            the passages.
        names: file names for citations: by `file_id` or `document_id`, or a function of a passage.
        cache: the cache; a new one when None.

    Raises:
        InvalidConfiguration: the arguments do not fit each other.
    """

    def __init__(
        self,
        source: PassageSource | Retriever,
        *,
        settings: ContextSettings | None = None,
        scopes: Sequence[Scope] | None = None,
        style: Style | Literal["sections", "numbered", "headings", "archives"] = "sections",
        count_tokens: TokenCounter = estimate_tokens,
        reranker: Reranker | RerankFunction | None = None,
        names: Names | None = None,
        cache: ContextCache[Built] | None = None,
    ) -> None:
        if hasattr(source, "asearch"):
            from ragstore_client.context._archive_source import ArchiveSource  # a quarter of the import's time

            source = ArchiveSource(cast("Retriever", source))
        if not isinstance(source, PassageSource):
            raise InvalidConfiguration("a source needs a method search")
        if isinstance(style, str) and style not in STYLES:
            raise InvalidConfiguration(f"no style {style!r}; there are {', '.join(STYLES)}")
        self.settings = settings or ContextSettings()
        self._source: PassageSource = source
        self._scopes = [Scope()] if scopes is None else list(scopes)
        self._style: Style = STYLES[style] if isinstance(style, str) else style
        self._count_tokens = count_tokens
        self._reranker = reranker
        self._names = names
        self._cache: ContextCache[Built] = ContextCache() if cache is None else cache
        self._identity = object()  # part of the keys in a cache that builders share
        self._flights = self._cache.single_flight()
        if not (reranker is None or isinstance(reranker, Reranker) or callable(reranker)):
            raise InvalidConfiguration("a reranker is a function, or has a method rerank")
        self._check(self.settings, self._scopes)

    async def build(
        self,
        question: str,
        *,
        session_id: str | None = None,
        topic: str | None = None,
        scopes: Sequence[Scope] | None = None,
        settings: ContextSettings | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> ChatContext:
        """Build the context of a question.

        Every failure of retrieval leads to a context within the time limit: one with fewer passages, or without any and
        with a reason.

        Args:
            session_id: the session, for scopes that need one.
            topic: the topic that the conversation has accumulated (`TopicTracker`); searched for in place of the
                question.
            scopes: in place of the builder's.
            settings: in place of the builder's; `builder.settings.override(...)` changes some of them.
            headers: sent with every request of a source that has any, such as `x-request-id`. Only calls with equal
                headers share a retrieval; headers that identify a request may differ.

        Returns:
            The context. Its passages are copies, which the caller may change.

        Raises:
            TypeError: an argument is of a wrong type.
            InvalidConfiguration: the scopes or the settings do not fit the source.
        """
        started = time.perf_counter()
        strings: dict[str, object] = {"question": question, "session_id": session_id, "topic": topic}
        for name, value in strings.items():
            if not isinstance(value, str) and (value is not None or name == "question"):
                raise TypeError(f"{name} must be a string")
        if not (headers is None or isinstance(headers, Mapping)):
            raise TypeError("headers must be a mapping")
        settings = settings or self.settings
        if scopes is not None or settings is not self.settings:
            self._check(settings, self._scopes if scopes is None else scopes)
        query = choose_query(question, topic).text
        selected = searches(self._scopes if scopes is None else scopes, session_id, settings.global_session_id)
        reason = _reason_not_to_search(question, settings, selected)
        cached: Built | None = None
        if reason is not None:
            built = Built(reason=reason)
        else:
            access = _access_of(headers or {})
            key = CacheKey(session_id, question, query, (self._identity, repr(selected), settings, access))
            cached = self._cache.get(key)
            built = cached or await self._flights.run(
                key, lambda: self._build_and_cache(key, selected, settings, headers)
            )
        total = time.perf_counter() - started
        return ChatContext(
            question=question,
            query=query,
            used=bool(built.passages),
            reason=built.reason,
            style=self._style,
            passages=list(map(_copy, built.passages)),
            tokens=built.tokens,
            failures=list(built.failures),
            cached=cached is not None,
            timings=Timings(total_seconds=total)
            if cached
            else msgspec.structs.replace(built.timings, total_seconds=total),
            debug_enabled=settings.debug,
        )

    def invalidate(self, *, session_id: str | None = None) -> None:
        """Remove cached retrievals, after documents were stored or deleted.

        A retrieval in flight ends for those who wait for it, and is not cached.

        Args:
            session_id: remove the retrievals of this session; all when None, as a change of documents of all sessions
                needs.
        """
        self._cache.invalidate(lambda key: session_id is None or key.session_id == session_id)

    def _check(self, settings: ContextSettings, scopes: Sequence[Scope]) -> None:
        if not isinstance(settings, ContextSettings):
            raise TypeError("settings must be ContextSettings")
        if not all(isinstance(scope, Scope) for scope in scopes):
            raise TypeError("scopes must be Scope")
        if not isinstance(self._source, ScopedSource) and any(scope.collections for scope in scopes):
            raise InvalidConfiguration("a scope names collections, but the source has no method scoped")
        if settings.diversity is not None and self._reranker is None and importlib.util.find_spec("numpy") is None:
            raise InvalidConfiguration("MMR needs numpy: install ragstore-client[context]")

    async def _build_and_cache(
        self,
        key: CacheKey,
        selected: Sequence[ScopedSearch],
        settings: ContextSettings,
        headers: Mapping[str, str] | None,
    ) -> Built:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + settings.timeout_seconds
        started = time.perf_counter()
        retrieval = await search_all(
            self._source,
            key.query,
            selected,
            top_k=settings.candidates(reranks=self._reranker is not None),
            with_embeddings=settings.diversity is not None and self._reranker is None,
            deadline=deadline,
            headers=headers,
        )
        searched = time.perf_counter()
        try:
            built = await self._choose(key, retrieval, settings, deadline)
        except Exception as error:  # noqa: BLE001 - a counter, a style or names may be third-party code
            logger.error("Selecting passages failed, continuing without context: %s", describe(error))
            built = Built(reason="failed", failures=[*retrieval.failures, to_failure("select", error)])
        rerank_seconds = built.timings.rerank_seconds
        timings = Timings(
            search_seconds=searched - started,
            rerank_seconds=rerank_seconds,
            select_seconds=time.perf_counter() - searched - rerank_seconds,
        )
        built = msgspec.structs.replace(built, timings=timings)
        if not built.failures:
            size_bytes = built.size_bytes + key.size_bytes
            ttl_seconds = settings.cache_ttl_seconds
            self._cache.put(key, built, size_bytes=size_bytes, ttl_seconds=ttl_seconds, flights=self._flights)
        return built

    async def _choose(self, key: CacheKey, retrieval: Retrieval, settings: ContextSettings, deadline: float) -> Built:
        found = above_threshold(retrieval.passages, settings.similarity_threshold)
        failures = list(retrieval.failures)
        if skips_context(key.question, found, min_characters=settings.min_question_characters):
            return Built(reason=_reason(failures) or "short_question", failures=failures)
        unique = deduplicate(found, by_url=settings.deduplicate_by_url)
        started = time.perf_counter()
        reranked = await self._rerank(key.query, unique, deadline, failures)
        rerank_seconds = time.perf_counter() - started
        ordered = _order(unique, settings, failures) if reranked is None else reranked
        budget = Budget(
            token_budget=settings.token_budget,
            max_passages=settings.top_k_max,
            max_sources=settings.max_sources,
            max_characters=settings.max_characters,
        )
        passages = select(ordered, style=self._style, budget=budget, count_tokens=self._count_tokens, names=self._names)
        tokens = sum(passage.tokens for passage in passages)
        if passages:
            tokens += sum(map(self._count_tokens, self._style.frame))
        return Built(
            passages=passages,
            tokens=tokens,
            reason=None if passages else _reason(failures) or "no_match",
            failures=failures,
            timings=Timings(rerank_seconds=rerank_seconds),
        )

    async def _rerank(
        self,
        query: str,
        passages: list[Passage],
        deadline: float,
        failures: list[StepFailure],
    ) -> list[Passage] | None:
        """The passages in the reranker's order; None without one, and when it fails or is too slow."""
        if self._reranker is None or not passages:
            return None
        task = asyncio.create_task(apply_reranker(self._reranker, query, passages))
        try:
            await asyncio.wait({task}, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))
            if not task.done():
                raise TimeoutError
            return task.result()
        except (Exception, asyncio.CancelledError) as error:  # a reranker may be third-party code, and raise anything
            if isinstance(error, asyncio.CancelledError) and not task.cancelled():
                raise
            logger.warning("Reranking failed, ordering by similarity: %s", describe(error))
            failures.append(to_failure("rerank", error))
            return None
        finally:
            await cancel([task])


def _access_of(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The headers on which a result may depend, such as `authorization`."""
    given = ((str(name).lower(), str(value)) for name, value in headers.items())
    return tuple(sorted(header for header in given if header[0] not in _REQUEST_IDENTIFIERS))


def _copy(passage: ContextPassage) -> ContextPassage:
    metadata = {name: [*value] if isinstance(value, list) else value for name, value in passage.metadata.items()}
    return msgspec.structs.replace(passage, metadata=metadata)


def _order(passages: list[Passage], settings: ContextSettings, failures: list[StepFailure]) -> list[Passage]:
    ordered = by_similarity(passages)
    if settings.diversity is None:
        return ordered
    try:
        # The source knows the query's vector, and has compared it with each passage.
        return maximal_marginal_relevance(None, ordered, k=settings.top_k_max, diversity=settings.diversity)
    except InvalidInput as error:
        logger.warning("MMR is not possible, ordering by similarity: %s", error)
        failures.append(to_failure("order", error))
        return ordered


def _reason_not_to_search(question: str, settings: ContextSettings, selected: Sequence[ScopedSearch]) -> Reason | None:
    if not settings.enabled:
        return "disabled"
    skips = settings.short_questions == "skip" and is_short(question, settings.min_question_characters)
    if skips or not question.strip():
        return "short_question"
    return None if selected else "no_sources"


def _reason(failures: Sequence[StepFailure]) -> Reason | None:
    """The reason of an empty context after failures: what timed out or failed may have had passages."""
    reasons = {failure.reason for failure in failures if failure.step not in ("rerank", "order")}
    return "timeout" if "timeout" in reasons else "failed" if reasons else None
