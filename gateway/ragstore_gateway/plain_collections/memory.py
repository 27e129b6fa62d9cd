"""The plain `rag/` model: it searches the collections of the settings, and numbers the sources."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import structlog
from msgspec import Raw

from ragstore_client import EmbeddingTimeout, GatewayTimeout, NotFound, RagstoreError
from ragstore_client.context import (
    AsyncContextBuilder,
    ChatContext,
    ClientSource,
    ContextSettings,
    Numbered,
    PartialSearch,
    Passage,
    by_similarity,
    deduplicate,
)
from ragstore_gateway import errors
from ragstore_gateway.chat import metrics
from ragstore_gateway.chat.conversation import Conversation
from ragstore_gateway.chat.rag_models import Augmentation, Caller, no_question
from ragstore_gateway.embeddings.embedder import Embedder, Vectors
from ragstore_gateway.settings import Settings
from ragstore_gateway.store.store import Store

if TYPE_CHECKING:
    from ragstore_client import Where

FAN_OUT: Final = 3
"""Passages fetched for each URL of a prompt, because an URL may have several among the nearest ones."""

MORE: Final = 8
"""Factor by which more passages are fetched if they have too few URLs."""

MAX_FETCHED: Final = 1000
"""Maximum number of passages that are fetched; the store's own maximum."""

CUT_MARK: Final = "\n...\n"
"""End of a passage that was cut."""

GRACE_SECONDS: Final = 0.5
"""Time beyond the limit of a retrieval, after which it is left even if a part of it does not end."""

STYLE: Final = Numbered()

_MISSING: Final = {"404"}
_log = structlog.get_logger(__name__)


class CollectionsMissing(RagstoreError):
    """A collection does not exist yet, and the others have no passage."""


class MemorySource:
    """Searches collections: the best passage of each of the nearest URLs.

    A passage without a URL counts as one of its own. Collections that do not exist are ignored if another one exists.

    Args:
        embedder: embeds the question.
        collections: the collections; none if those of the settings do not exist for the caller.
    """

    def __init__(self, store: Store, embedder: Embedder, settings: Settings, collections: Sequence[str]) -> None:
        self._embedder = embedder
        self._max_characters = settings.rag_max_characters
        self._threshold = settings.rag_similarity_threshold
        self._source = ClientSource(store.client, self._embed, collections=collections) if collections else None

    async def _embed(self, text: str) -> Vectors:
        try:
            vectors = await self._embedder.embed([text], "query")
        except errors.EmbeddingTimeout as error:
            # Of the gateway's errors, the builder knows only that they are failures.
            raise EmbeddingTimeout(error.detail) from error
        row: Vectors = vectors[0]
        return row

    async def search(
        self, query: str, top_k: int, *, where: Where | None, with_embeddings: bool, deadline: float | None
    ) -> list[Passage]:
        """Find the best passage of each of the `top_k` URLs that are nearest to a text. See `PassageSource.search`.

        Raises:
            CollectionsMissing: there is no collection to search.
            PartialSearch: some of the collections failed, or the search for further URLs did.
        """
        nearest: list[Passage] = []
        wanted = FAN_OUT * top_k
        while True:
            fetched = min(wanted, MAX_FETCHED)
            try:
                found = await self._existing(query, fetched, where, with_embeddings, deadline)
            except PartialSearch as error:
                raise PartialSearch(self._nearest(error.passages, top_k), error.reason, error.errors) from None
            except RagstoreError as error:
                if not nearest:
                    raise
                is_timeout = isinstance(error, TimeoutError | GatewayTimeout)
                raise PartialSearch(nearest, "timeout" if is_timeout else "failed", [type(error).__name__]) from None
            nearest = self._nearest(found, top_k)
            if len(nearest) >= top_k or fetched == MAX_FETCHED or self._complete(found, fetched):
                return nearest
            wanted = MORE * fetched

    async def _existing(
        self, query: str, count: int, where: Where | None, with_embeddings: bool, deadline: float | None
    ) -> list[Passage]:
        """The nearest passages of the collections that exist."""
        if self._source is None:
            raise CollectionsMissing("no collection exists for the caller")
        try:
            return await self._source.search(
                query, count, where=where, with_embeddings=with_embeddings, deadline=deadline
            )
        except NotFound:
            raise CollectionsMissing("the collections do not exist") from None
        except PartialSearch as error:
            if set(error.errors) != _MISSING:
                raise
            if not error.passages:
                raise CollectionsMissing("some of the collections do not exist, and the others have nothing") from None
            return error.passages

    def _complete(self, found: Sequence[Passage], fetched: int) -> bool:
        """Whether further passages would be of no use: there are none, or they are below the threshold."""
        similarities = [passage.similarity for passage in found if passage.similarity is not None]
        return len(found) < fetched or (bool(similarities) and min(similarities) < self._threshold)

    def _nearest(self, passages: Sequence[Passage], count: int) -> list[Passage]:
        """The best passage of each of the nearest URLs. A text that several of these passages have counts once."""
        best: dict[object, Passage] = {}
        for passage in by_similarity(passages):
            best.setdefault(passage.metadata.get("url") or (passage.collection, passage.id), passage)
        return self._cut(deduplicate(best.values())[:count])

    def _cut(self, passages: Sequence[Passage]) -> list[Passage]:
        return [
            msgspec.structs.replace(passage, text=passage.text[: self._max_characters] + CUT_MARK)
            if len(passage.text) > self._max_characters
            else passage
            for passage in passages
        ]


@dataclass(frozen=True, slots=True)
class MemoryModel:
    """A plain `rag/` model.

    Attributes:
        upstream_models: the upstream's models that may serve it, best first.
        memory: what it retrieves from.
    """

    upstream_models: Sequence[str]
    memory: Memory

    @property
    def no_upstream_model(self) -> str:
        """One sentence for the caller; see `RagModel`."""
        tried = ", ".join(map(repr, self.upstream_models))
        return f"There is no such assistant, and the model server has none of the models {tried}"

    async def augment(self, conversation: Conversation, caller: Caller) -> Augmentation:
        """Add numbered sources; see `RagModel`."""
        return await self.memory.augment(conversation, caller)

    def without_question(self, messages: Raw | None) -> Augmentation:
        """The messages unchanged; see `RagModel`."""
        return no_question()


class Memory:
    """Retrieves for all plain `rag/` models.

    Args:
        embedder: embeds questions.
    """

    def __init__(self, store: Store, embedder: Embedder, settings: Settings) -> None:
        self._store = store
        self._embedder = embedder
        self._settings = settings
        self._builders: dict[tuple[str, ...], AsyncContextBuilder] = {}

    def _builder(self, caller: Caller) -> AsyncContextBuilder:
        """The builder for a caller. Callers who see the same collections share it, and its cache."""
        visible = tuple(name for name in self._settings.collections if caller.bases.matches(name))
        if visible not in self._builders:
            self._builders[visible] = self._new_builder(visible)
        return self._builders[visible]

    def _new_builder(self, collections: Sequence[str]) -> AsyncContextBuilder:
        settings = self._settings
        return AsyncContextBuilder(
            MemorySource(self._store, self._embedder, settings, collections),
            style=STYLE,
            settings=ContextSettings(
                enabled=settings.rag_enabled and bool(settings.collections),
                top_k_max=settings.rag_top_k,
                # As many as the prompt may have, so diversity orders them and drops none.
                fetch_k=settings.rag_top_k,
                diversity=settings.rag_diversity,
                max_sources=settings.rag_max_sources,
                token_budget=settings.rag_token_budget,
                similarity_threshold=settings.rag_similarity_threshold,
                timeout_seconds=settings.rag_timeout_seconds,
                cache_ttl_seconds=settings.rag_cache_ttl_seconds,
                deduplicate_by_url=True,
                min_question_characters=0,
            ),
        )

    def model(self, upstream_models: Sequence[str]) -> MemoryModel:
        """A plain `rag/` model; see `PlainModels`."""
        return MemoryModel(upstream_models, self)

    async def augment(self, conversation: Conversation, caller: Caller) -> Augmentation:
        """Retrieve passages for a conversation, and add them as numbered sources.

        Args:
            caller: its sight decides which of the collections are searched.
        """
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._settings.rag_timeout_seconds + GRACE_SECONDS):
                context = await self._builder(caller).build(conversation.question)
        except TimeoutError:
            return self._failed("timeout", "")
        except Exception as error:  # noqa: BLE001 - whatever fails in retrieval, the chat continues
            return self._failed("failed", type(error).__name__)
        metrics.RETRIEVAL_SECONDS.observe(time.perf_counter() - started)
        reason = _reason(context)
        if reason in ("failed", "timeout"):
            return self._failed(reason, ", ".join(failure.error for failure in context.failures), context)
        metrics.retrieval(reason or "used")
        messages = None
        if context.used:
            messages = conversation.augmented(
                STYLE.system, context.text(), keep_history=self._settings.history == "keep"
            )
        return Augmentation(messages, context.passages, reason, debug={**context.debug(), "reason": reason or None})

    @staticmethod
    def _failed(reason: str, error: str, context: ChatContext | None = None) -> Augmentation:
        metrics.retrieval(reason)
        _log.warning("retrieval failed", reason=reason, error=error)
        debug = {} if context is None else context.debug()
        return Augmentation(reason=reason, failed=True, debug={**debug, "used": False, "reason": reason})


def _reason(context: ChatContext) -> str:
    """Why a context is empty; an empty string if it is not."""
    failures = {failure.error for failure in context.failures}
    if context.reason == "failed" and failures == {CollectionsMissing.__name__}:
        return "no_sources"
    return context.reason or ""
