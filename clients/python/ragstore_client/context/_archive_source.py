"""A source over the archives of a retriever."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from ragstore_client._models import Strings, Where
from ragstore_client.context._passages import Passage
from ragstore_client.context._sources import PartialSearch, seconds_before
from ragstore_client.rag._config import RagConfig
from ragstore_client.rag._providers import SearchOptions
from ragstore_client.rag._results import SkipReason
from ragstore_client.rag._retriever import Retriever


class ArchiveSource:
    """Searches the archives of a retriever.

    Args:
        layer: the layer of the documents; None for all.
    """

    def __init__(self, retriever: Retriever, *, layer: str | None = None) -> None:
        self._retriever = retriever
        self._layer = layer
        self._headers: Mapping[str, str] = {}
        self._unknown = False

    def scoped(self, *, collections: Strings | None = None, headers: Mapping[str, str] | None = None) -> ArchiveSource:
        """The same source for one search. See `ScopedSource.scoped`."""
        source = copy.copy(self)
        source._headers = {**self._headers, **(headers or {})}
        if collections is not None:
            archives = [known for known in self._retriever.config.archives if known.collection_name in collections]
            source._retriever = copy.copy(self._retriever)
            source._retriever.config = RagConfig(archives=archives)
            source._unknown = not {archive.collection_name for archive in archives}.issuperset(collections)
        return source

    async def search(
        self,
        query: str,
        top_k: int,
        *,
        where: Where | None = None,
        with_embeddings: bool = False,
        deadline: float | None = None,
    ) -> list[Passage]:
        """Find the passages nearest to a text. See `PassageSource.search`.

        Raises:
            PartialSearch: some of the archives were skipped, or a collection is not one of them.
            EmbeddingFailed: the question could not be embedded.
        """
        found = await self._retriever.asearch(
            query,
            top_k,
            layer=self._layer,
            where=where,
            timeout_seconds=None if deadline is None else seconds_before(deadline),
            options=SearchOptions(include_embeddings=with_embeddings, headers=self._headers),
        )
        passages = [
            Passage(
                id=passage.id,
                text=passage.text,
                metadata=passage.metadata,
                similarity=passage.score,
                embedding=passage.embedding,
                collection=passage.archive.collection_name,
            )
            for passage in found.passages
        ]
        reasons = list(dict.fromkeys(skipped.reason for skipped in found.skipped))
        errors = [*map(str, reasons), *(["collection of no archive"] if self._unknown else [])]
        if errors:
            raise PartialSearch(passages, "timeout" if SkipReason.TOO_SLOW in reasons else "failed", errors)
        return passages
