"""The retriever: one question to many archives, one ranked answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from ragstore_client._endpoint import parse_endpoint
from ragstore_client._exceptions import EmbeddingFailed, InvalidConfiguration, InvalidInput, RagstoreError, describe
from ragstore_client._models import CollectionError
from ragstore_client.rag._config import RagArchiveConfig, RagConfig, RagSettings, clamp_top_k
from ragstore_client.rag._connections import loop_thread
from ragstore_client.rag._embedder import Embedder, EmbeddingsClient
from ragstore_client.rag._embedding_cache import EmbeddingCache, shared_cache
from ragstore_client.rag._expansion import ExpandedPassage, document_filter, passage, section_filter
from ragstore_client.rag._fanout import failure
from ragstore_client.rag._results import RetrievedPassage, SearchResults, SkippedArchive, SkipReason, ranked
from ragstore_client.rag._services import ServiceRouter

if TYPE_CHECKING:
    from array import array

    from ragstore_client._models import JSON, Scalar, Where

logger = logging.getLogger("ragstore_client.rag")

ALL_LAYERS = "*"

_MAX_MATCHES = 1000
"""Most matches that a service returns."""

_MAX_CHUNKS = 10_000
"""Most pieces that a section or document is put together from."""


class _Group(msgspec.Struct):
    """Archives that one call can search: they share a service and an embedding model."""

    url: str
    model: str
    archives: list[RagArchiveConfig]


class Retriever:
    """Searches all archives of an invocation. Threads and event loops may share it; nothing needs closing.

    Args:
        config: the archives.
        settings: time limits and defaults; read from the environment when None.
        embedder: what embeds queries; the endpoint that the settings name when None.
        cache: vectors of earlier queries; one for the whole process when None.
        api_key: key for ragstore services, one for all or by base URL; the settings' when None.

    Raises:
        InvalidConfiguration: the environment, or the endpoint's URL, is wrong.
    """

    def __init__(
        self,
        config: RagConfig,
        *,
        settings: RagSettings | None = None,
        embedder: Embedder | None = None,
        cache: EmbeddingCache | None = None,
        api_key: str | Mapping[str, str] | None = None,
    ) -> None:
        self.config = config
        self.settings = settings or RagSettings.from_env()
        self._embedder = embedder or EmbeddingsClient(self.settings.embeddings_url, timeout=self.settings.embed_timeout)
        self._cache = shared_cache if cache is None else cache
        self._services = ServiceRouter(timeout=self.settings.query_timeout, api_key=api_key or self.settings.api_key)

    def search(
        self, query: str, top_k: int | None = None, *, layer: str | None = None, where: Where | None = None
    ) -> SearchResults:
        """Find passages on a question.

        Args:
            query: the question, or the topic.
            top_k: most passages, brought to 1..20; the settings' default when None.
            layer: which layer of the documents, `*` for all; the settings' default when None.
            where: a further filter on metadata.

        Returns:
            The passages, nearest first and each once, and the archives that could not be searched. Distances of
            archives that measure differently are compared as they are.

        Raises:
            EmbeddingFailed: the query could not be embedded with any of the archives' models.
            InvalidInput: the filter cannot be sent.
        """
        return loop_thread.run(self.asearch(query, top_k, layer=layer, where=where))

    async def asearch(
        self, query: str, top_k: int | None = None, *, layer: str | None = None, where: Where | None = None
    ) -> SearchResults:
        """Find passages on a question. See `search`."""
        wanted = clamp_top_k(self.settings.default_top_k if top_k is None else top_k)
        if not query.strip():
            return SearchResults(searched=len(self.config.archives))
        groups, skipped = self._groups()
        vectors = await self._vectors(query, groups)
        filter_ = self._filter(layer, where)
        answers = await asyncio.gather(
            *(self._search_group(group, vectors.get(group.model), wanted, filter_) for group in groups)
        )
        found = [hit for hits, _ in answers for hit in hits]
        skipped += [skip for _, skips in answers for skip in skips]
        for skip in skipped:
            logger.warning("Skipping archive %s (%s): %s", skip.archive.name, skip.archive.collection_name, skip.reason)
        results = SearchResults(ranked(found, wanted), skipped, len(self.config.archives) - len(skipped))
        logger.info(
            "Searched %d archives, skipped %d: %d passages of %d matches, distances %s",
            results.searched,
            len(skipped),
            len(results),
            len(found),
            [round(hit.distance, 4) for hit in results if hit.distance is not None],
        )
        return results

    def gather_section(self, hit: RetrievedPassage) -> ExpandedPassage:
        """Go from a hit to its whole section.

        Args:
            hit: a hit of any search.

        Returns:
            The section's pieces in reading order; those of its document when it names no section.

        Raises:
            InvalidInput: its metadata names neither.
            RagstoreError: the archive could not be read.
        """
        return loop_thread.run(self.agather_section(hit))

    async def agather_section(self, hit: RetrievedPassage) -> ExpandedPassage:
        """Go from a hit to its whole section. See `gather_section`."""
        return await self._gather(hit, section_filter(hit))

    def gather_document(self, hit: RetrievedPassage) -> ExpandedPassage:
        """Go from a hit to its whole document.

        Args:
            hit: a hit of any search.

        Returns:
            The document's pieces in reading order, of the hit's layer.

        Raises:
            InvalidInput: its metadata names no document.
            RagstoreError: the archive could not be read.
        """
        return loop_thread.run(self.agather_document(hit))

    async def agather_document(self, hit: RetrievedPassage) -> ExpandedPassage:
        """Go from a hit to its whole document. See `gather_document`."""
        return await self._gather(hit, document_filter(hit))

    async def _gather(self, hit: RetrievedPassage, where: Mapping[str, Scalar]) -> ExpandedPassage:
        archive = hit.archive
        documents = await self._services.documents(
            archive.chromadb_url, archive.collection_name, where=dict(where), limit=_MAX_CHUNKS
        )
        return passage(documents, hit if "section_heading" in where else None)

    def _groups(self) -> tuple[list[_Group], list[SkippedArchive]]:
        groups: dict[tuple[str, str], _Group] = {}
        skipped: list[SkippedArchive] = []
        for archive in self.config.archives:
            try:
                key = (parse_endpoint(archive.chromadb_url).url, archive.embedding_model)
            except InvalidConfiguration:
                skipped.append(SkippedArchive(archive, SkipReason.MISCONFIGURED))
                continue
            groups.setdefault(key, _Group(archive.chromadb_url, archive.embedding_model, [])).archives.append(archive)
        return list(groups.values()), skipped

    async def _vectors(self, query: str, groups: list[_Group]) -> dict[str, array[float]]:
        """The query's vector by each model that some archive was made with."""
        users: dict[str, int] = {}
        for group in groups:
            users[group.model] = users.get(group.model, 0) + len(group.archives)
        made = await asyncio.gather(*(self._vector(query, model, count) for model, count in users.items()))
        vectors = {model: vector for model, vector in zip(users, made, strict=True) if vector is not None}
        if users and not vectors:
            raise EmbeddingFailed("the query could not be embedded")
        return vectors

    async def _vector(self, query: str, model: str, archives: int) -> array[float] | None:
        try:
            async with asyncio.timeout(self.settings.embed_timeout):
                return await self._cache.embed(self._embedder, query, model=model, archives=archives)
        except Exception as error:  # noqa: BLE001 - an embedder may be anybody's, and raise anything
            reason = str(error) if isinstance(error, EmbeddingFailed) else describe(error)
            logger.error("Embedding the query with %s failed: %s", model, reason)
            return None

    async def _search_group(
        self, group: _Group, vector: array[float] | None, wanted: int, where: Where | None
    ) -> tuple[list[RetrievedPassage], list[SkippedArchive]]:
        if vector is None:
            return [], [SkippedArchive(archive, SkipReason.NOT_EMBEDDED) for archive in group.archives]
        # Duplicates fall away later, within an archive and between archives that hold the same documents.
        top_k = min(wanted * (1 + len(group.archives)), _MAX_MATCHES)
        by_collection: dict[str, list[RagArchiveConfig]] = {}
        for archive in group.archives:
            by_collection.setdefault(archive.collection_name, []).append(archive)
        try:
            answer = await self._services.search(group.url, list(by_collection), vector, top_k=top_k, where=where)
        except InvalidInput:
            raise
        except RagstoreError as error:
            errors = [failure(name, error) for name in by_collection]
            return [], _skipped(errors, by_collection)
        hits = [
            RetrievedPassage(
                archive=by_collection[match.collection][0],
                id=match.id,
                text=match.text,
                metadata=match.metadata,
                distance=match.distance,
                score=match.score,
            )
            for match in answer.results
            if match.collection in by_collection
        ]
        return hits, _skipped(answer.errors, by_collection)

    def _filter(self, layer: str | None, where: Where | None) -> Where | None:
        layer = layer or self.settings.default_layer
        clauses: list[Mapping[str, JSON]] = [] if layer == ALL_LAYERS else [{"layer": layer}]
        clauses += [where] if where else []
        if len(clauses) > 1:
            return {"$and": clauses}
        return clauses[0] if clauses else None


def _skipped(
    errors: list[CollectionError], by_collection: Mapping[str, list[RagArchiveConfig]]
) -> list[SkippedArchive]:
    return [
        SkippedArchive(archive, _reason(error))
        for error in errors
        for archive in by_collection.get(error.collection, [])
    ]


def _reason(error: CollectionError) -> SkipReason:
    if error.code == "dimension_mismatch":
        return SkipReason.DIMENSION
    return _REASONS.get(error.status, SkipReason.FAILED)


_REASONS = {
    401: SkipReason.FORBIDDEN,
    403: SkipReason.FORBIDDEN,
    404: SkipReason.NOT_FOUND,
    503: SkipReason.UNREACHABLE,
    504: SkipReason.TOO_SLOW,
}
