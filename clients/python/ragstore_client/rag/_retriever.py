"""The retriever: one query to several archives, one ranked result."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping

import httpx
import msgspec

from ragstore_client._endpoint import parse_endpoint
from ragstore_client._exceptions import (
    EmbeddingFailed,
    EmbeddingTimeout,
    InvalidConfiguration,
    InvalidInput,
    RagstoreError,
)
from ragstore_client._httpx import is_timeout
from ragstore_client._models import Scalar, Where
from ragstore_client._types import FloatArray
from ragstore_client.rag._config import RagArchiveConfig, RagConfig, RagSettings
from ragstore_client.rag._connections import LoopThread
from ragstore_client.rag._detection import BackendDetector
from ragstore_client.rag._embedder import Embedder, EmbeddingsClient
from ragstore_client.rag._embedding_cache import EmbeddingCache
from ragstore_client.rag._expansion import ExpandedPassage, assemble, document_filter, section_filter
from ragstore_client.rag._fanout import collection_error
from ragstore_client.rag._providers import NO_OPTIONS, SearchOptions
from ragstore_client.rag._results import RetrievedPassage, SearchResults, SkippedArchive, SkipReason, rank
from ragstore_client.rag._search_parts import ALL_LAYERS as ALL_LAYERS
from ragstore_client.rag._search_parts import (
    chroma_access,
    layer_filter,
    reason_for_log,
    reason_of,
    skipped_archives,
    to_passage,
)
from ragstore_client.rag._services import ServiceRouter

logger = logging.getLogger("ragstore_client.rag")


_MAX_MATCHES = 1000
"""Maximum number of matches that a service returns."""

_MAX_CHUNKS = 10_000
"""Maximum number of chunks of an expanded section or document."""


class _Group(msgspec.Struct):
    """Archives that one call can search: they share a service and an embedding model."""

    url: str
    model: str
    archives: list[RagArchiveConfig]


class _Search(msgspec.Struct, frozen=True):
    """The parameters of one search, but for the query."""

    max_passages: int
    where: Where | None
    where_without_layer: Where | None
    has_layer: bool
    deadline: float
    options: SearchOptions


class Retriever:
    """Searches the archives of an invocation. Threads and event loops may share it; nothing has to be closed.

    It has no state outside its arguments, except the connection pool that `http` replaces. Retrievers that live for one
    invocation should be given a shared `cache`, `detector` and `loop_thread`.

    Args:
        config: the archives.
        settings: time limits and defaults; `RagSettings()` when None. The environment is read by
            `RagSettings.from_env()` only.
        embedder: embeds queries; an `EmbeddingsClient` for the endpoint in `settings` when None.
        cache: vectors of earlier queries; a new cache when None.
        http: the httpx client for all requests; the event loop's pool when None. Its connections belong to the event
            loop that uses it first, so call either the asynchronous methods or the synchronous ones.
        detector: detects and caches the backend behind a URL; a new detector when None.
        loop_thread: runs the synchronous methods; a new thread, when one of them is called, when None.
        api_key: key for ragstore services, one for all or by base URL; the key in `settings` when None.

    Raises:
        InvalidConfiguration: the URL of the embeddings endpoint is not valid.
    """

    def __init__(
        self,
        config: RagConfig,
        *,
        settings: RagSettings | None = None,
        embedder: Embedder | None = None,
        cache: EmbeddingCache | None = None,
        http: httpx.AsyncClient | None = None,
        detector: BackendDetector | None = None,
        loop_thread: LoopThread | None = None,
        api_key: str | Mapping[str, str] | None = None,
    ) -> None:
        self.config = config
        self.settings = settings or RagSettings()
        self._embedder = embedder or EmbeddingsClient(
            self.settings.embeddings_url,
            timeout=self.settings.embed_timeout,
            api_key=self.settings.embeddings_api_key,
            http=http,
        )
        self._detector = detector or BackendDetector()
        self._cache = EmbeddingCache() if cache is None else cache
        self._loop_thread = loop_thread or LoopThread()
        self._services = ServiceRouter(
            self._detector,
            timeout=self.settings.query_timeout,
            api_key=api_key or self.settings.api_key,
            http=http,
            chroma=chroma_access(self.settings),
        )

    def search(
        self,
        query: str,
        top_k: int | None = None,
        *,
        layer: str | None = None,
        where: Where | None = None,
        timeout_seconds: float | None = None,
        options: SearchOptions = NO_OPTIONS,
    ) -> SearchResults:
        """Search the archives.

        Args:
            query: the question, or the topic.
            top_k: maximum number of passages, clamped to 1..1000; the default in `settings` when None.
            layer: layer of the documents; None or `*` for all.
            where: a further filter on metadata.
            timeout_seconds: time limit of this search, embedding included; the limits in `settings` apply as well.
            options: minimum score, whether vectors are returned, and headers of this search.

        Returns:
            The passages, nearest first and without duplicates, and the archives that were skipped. Distances of
            archives with different distance functions are compared without conversion.

        Raises:
            EmbeddingFailed: the query could not be embedded with any of the archives' models; an `EmbeddingTimeout` if
                one of them took too long.
            InvalidInput: the filter cannot be sent.
        """
        return self._loop_thread.run(
            self.asearch(query, top_k, layer=layer, where=where, timeout_seconds=timeout_seconds, options=options)
        )

    async def asearch(
        self,
        query: str,
        top_k: int | None = None,
        *,
        layer: str | None = None,
        where: Where | None = None,
        timeout_seconds: float | None = None,
        options: SearchOptions = NO_OPTIONS,
    ) -> SearchResults:
        """Search the archives.

        Args:
            query: the question, or the topic.
            top_k: maximum number of passages, clamped to 1..1000; the default in `settings` when None.
            layer: layer of the documents; None or `*` for all.
            where: a further filter on metadata.
            timeout_seconds: time limit of this search, embedding included; the limits in `settings` apply as well.
            options: minimum score, whether vectors are returned, and headers of this search.

        Returns:
            The passages, nearest first and without duplicates, and the archives that were skipped. Distances of
            archives with different distance functions are compared without conversion.

        Raises:
            EmbeddingFailed: the query could not be embedded with any of the archives' models; an `EmbeddingTimeout` if
                one of them took too long.
            InvalidInput: the filter cannot be sent.
        """
        max_passages = min(max(self.settings.default_top_k if top_k is None else top_k, 1), _MAX_MATCHES)
        deadline = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        if not query.strip():
            return SearchResults(searched=len(self.config.archives))
        groups, skipped = self._groups()
        vectors = await self._vectors(query, groups, deadline)
        has_layer = layer not in (None, ALL_LAYERS)
        search = _Search(
            max_passages, layer_filter(layer, where), where if has_layer else None, has_layer, deadline, options
        )
        searches = await asyncio.gather(*(self._search_group(group, vectors[group.model], search) for group in groups))
        found = [passage for passages, _ in searches for passage in passages]
        skipped += [skip for _, skips in searches for skip in skips]
        for skip in skipped:
            logger.warning("Skipping archive %s (%s): %s", skip.archive.name, skip.archive.collection_name, skip.reason)
        results = SearchResults(rank(found, max_passages), skipped, len(self.config.archives) - len(skipped))
        logger.info(
            "Searched %d archives, skipped %d: %d passages of %d matches, distances %s",
            results.searched,
            len(skipped),
            len(results),
            len(found),
            [round(passage.distance, 4) for passage in results if passage.distance is not None],
        )
        return results

    def gather_section(self, passage: RetrievedPassage) -> ExpandedPassage:
        """Get the whole section of a passage.

        Args:
            passage: a passage of any search.

        Returns:
            The section's chunks in reading order; the document's chunks when the passage names no section.

        Raises:
            InvalidInput: the passage's metadata names neither.
            RagstoreError: the archive could not be read.
        """
        return self._loop_thread.run(self.agather_section(passage))

    async def agather_section(self, passage: RetrievedPassage) -> ExpandedPassage:
        """Get the whole section of a passage.

        Args:
            passage: a passage of any search.

        Returns:
            The section's chunks in reading order; the document's chunks when the passage names no section.

        Raises:
            InvalidInput: the passage's metadata names neither.
            RagstoreError: the archive could not be read.
        """
        return await self._gather(passage, section_filter(passage))

    def gather_document(self, passage: RetrievedPassage) -> ExpandedPassage:
        """Get the whole document of a passage.

        Args:
            passage: a passage of any search.

        Returns:
            The document's chunks in reading order, of the passage's layer.

        Raises:
            InvalidInput: the passage's metadata names no document.
            RagstoreError: the archive could not be read.
        """
        return self._loop_thread.run(self.agather_document(passage))

    async def agather_document(self, passage: RetrievedPassage) -> ExpandedPassage:
        """Get the whole document of a passage.

        Args:
            passage: a passage of any search.

        Returns:
            The document's chunks in reading order, of the passage's layer.

        Raises:
            InvalidInput: the passage's metadata names no document.
            RagstoreError: the archive could not be read.
        """
        return await self._gather(passage, document_filter(passage))

    async def _gather(self, passage: RetrievedPassage, where: Mapping[str, Scalar]) -> ExpandedPassage:
        archive = passage.archive
        documents = await self._services.documents(
            archive.service_url, archive.collection_name, where=dict(where), limit=_MAX_CHUNKS
        )
        return assemble(documents, passage if "section_heading" in where else None)

    def _groups(self) -> tuple[list[_Group], list[SkippedArchive]]:
        groups: dict[tuple[str, str], _Group] = {}
        skipped: list[SkippedArchive] = []
        for archive in self.config.archives:
            try:
                key = (parse_endpoint(archive.service_url).url, archive.embedding_model)
            except InvalidConfiguration:
                skipped.append(SkippedArchive(archive, SkipReason.MISCONFIGURED))
                continue
            groups.setdefault(key, _Group(archive.service_url, archive.embedding_model, [])).archives.append(archive)
        return list(groups.values()), skipped

    async def _vectors(self, query: str, groups: list[_Group], deadline: float) -> dict[str, FloatArray | Exception]:
        """The query's vector by each model that an archive was embedded with, or why there is none."""
        archives: dict[str, int] = {}
        for group in groups:
            archives[group.model] = archives.get(group.model, 0) + len(group.archives)
        made = await asyncio.gather(*(self._vector(query, model, count, deadline) for model, count in archives.items()))
        errors = [found for found in made if isinstance(found, Exception)]
        if errors and len(errors) == len(made):
            reasons = "; ".join(
                f"with {model}: {reason_of(error)}" for model, error in zip(archives, errors, strict=True)
            )
            failure = EmbeddingTimeout if any(map(is_timeout, errors)) else EmbeddingFailed
            raise failure(f"the query could not be embedded {reasons}") from errors[0]
        return dict(zip(archives, made, strict=True))

    async def _vector(self, query: str, model: str, archives: int, deadline: float) -> FloatArray | Exception:
        seconds = min(self.settings.embed_timeout, deadline - time.monotonic())
        try:
            async with asyncio.timeout(seconds):
                return await self._cache.embed(self._embedder, query, model=model, archives=archives)
        except Exception as error:  # noqa: BLE001 - an embedder may be third-party code, and raise anything
            if isinstance(error, TimeoutError) and not isinstance(error, RagstoreError):
                where = f"{self._embedder.connection}, model {model!r}"
                logger.error("Embedding the query with %s failed: no vector within %.3g s", model, seconds)
                late = EmbeddingTimeout(f"{where}: no vector within {seconds:.3g} s")
                late.__cause__ = error
                return late
            logger.error("Embedding the query with %s failed: %s", model, reason_for_log(error, query))
            return error

    async def _search_group(
        self, group: _Group, vector: FloatArray | Exception, search: _Search
    ) -> tuple[list[RetrievedPassage], list[SkippedArchive]]:
        if isinstance(vector, Exception):
            reason = SkipReason.TOO_SLOW if is_timeout(vector) else SkipReason.NOT_EMBEDDED
            return [], [SkippedArchive(archive, reason) for archive in group.archives]
        # Duplicates are removed later, within an archive and between archives that hold the same documents.
        top_k = min(search.max_passages * (1 + len(group.archives)), _MAX_MATCHES)
        by_collection: dict[str, list[RagArchiveConfig]] = {}
        for archive in group.archives:
            by_collection.setdefault(archive.collection_name, []).append(archive)
        try:
            found = await self._services.search(
                group.url,
                list(by_collection),
                vector,
                top_k=top_k,
                where=search.where,
                timeout_seconds=search.deadline - time.monotonic(),
                options=search.options,
            )
        except InvalidInput:
            raise
        except RagstoreError as error:
            errors = [collection_error(name, error) for name in by_collection]
            return [], skipped_archives(errors, by_collection)
        passages = [to_passage(match, by_collection) for match in found.results if match.collection in by_collection]
        skipped = skipped_archives(found.errors, by_collection)
        if search.has_layer:
            passages += await self._without_layers(group, vector, search, top_k, by_collection, passages, skipped)
        return passages, skipped

    async def _without_layers(
        self,
        group: _Group,
        vector: FloatArray,
        search: _Search,
        top_k: int,
        by_collection: Mapping[str, list[RagArchiveConfig]],
        passages: list[RetrievedPassage],
        skipped: list[SkippedArchive],
    ) -> list[RetrievedPassage]:
        """Passages of collections in which the layer has none, because their documents have no layer at all."""
        known = {passage.archive.collection_name for passage in passages}
        known |= {each.archive.collection_name for each in skipped}
        unknown = [name for name in by_collection if name not in known]
        if not unknown:
            return []
        try:
            found = await self._services.search(
                group.url,
                unknown,
                vector,
                top_k=top_k,
                where=search.where_without_layer,
                timeout_seconds=search.deadline - time.monotonic(),
                options=search.options,
            )
        except RagstoreError:
            return []  # the archives were searched, as far as the layer goes
        more = [match for match in found.results if "layer" not in match.metadata and match.collection in by_collection]
        for name in dict.fromkeys(match.collection for match in more):
            if name is not None and self._detector.note_without_layers(group.url, name):
                logger.warning("The documents of collection %s have no layer: all of them are searched", name)
        return [to_passage(match, by_collection) for match in more]
