"""Orders the passages of a context: by diversity, or by a reranking model."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import httpx

from ragstore.kit.tracing.spans import span
from ragstore_client.context import CohereReranker, Reranker, TeiReranker, maximal_marginal_relevance
from ragstore_gateway.configurations.assistant import Rerank
from ragstore_gateway.embeddings.cross_encoder import CrossEncoders
from ragstore_gateway.embeddings.embedder import Embedder, Vectors
from ragstore_gateway.engines.engine_collection import Passage, Vector
from ragstore_gateway.retrieval.library_passages import library_passage
from ragstore_gateway.secrets.secret_references import SecretReferences

FAN_OUT: Final = 3
"""Passages fetched for each result of a base, if a ranking chooses among them."""

MAX_RANKED: Final = 200
"""Maximum number of passages of a ranking: the best ones."""

RERANK_SECONDS: Final = 5.0


class Ranking:
    """Orders passages.

    Args:
        embedder: embeds passages, to compare them with each other. The models of their bases may differ, and their
            vectors then cannot be compared.
        secrets: resolves the keys of servers.
        http: sends requests to servers.
        cross_encoders: the models in the gateway's process.
    """

    def __init__(
        self, embedder: Embedder, secrets: SecretReferences, http: httpx.AsyncClient, cross_encoders: CrossEncoders
    ) -> None:
        self._cross_encoders = cross_encoders
        self._embedder = embedder
        self._secrets = secrets
        self._http = http

    async def diverse(self, passages: Sequence[Passage], diversity: float, *, same_model: bool) -> list[Passage]:
        """Order passages by maximal marginal relevance. The similarity to the question is the base's own.

        Their own vectors are compared if all have one. Otherwise, their texts are embedded.

        Args:
            diversity: 0 to 1.
            same_model: whether their vectors are of one model.

        Raises:
            ServiceError: the provider of embeddings failed.
        """
        given = _best(passages)
        with span("diversity", attributes={"passages": len(given)}):
            return await self._diverse(given, diversity, same_model=same_model)

    async def _diverse(self, given: Sequence[Passage], diversity: float, *, same_model: bool) -> list[Passage]:
        own = [each.vector for each in given if each.vector is not None] if same_model else []
        vectors: Sequence[Vector] | Vectors = own
        if len(own) < len(given):
            vectors = await self._embedder.embed([each.text for each in given], "document")
        numbered = [
            library_passage(each, str(index), vector)
            for index, (each, vector) in enumerate(zip(given, vectors, strict=True))
        ]
        ordered = maximal_marginal_relevance(None, numbered, k=len(numbered), diversity=diversity)
        return [given[int(each.id)] for each in ordered]

    async def reranked(self, question: str, passages: Sequence[Passage], rerank: Rerank) -> list[Passage]:
        """Order passages by a model that reads the question and each of them together.

        Args:
            rerank: the server, or the local model.

        Raises:
            RagstoreError: the server returned no usable scores in time.
            ServiceError: its key cannot be read, or the local model cannot be used.
        """
        given = _best(passages)
        with span("rerank", attributes={"provider": rerank.provider, "passages": len(given)}):
            return await self._reranked(question, given, rerank)

    async def _reranked(self, question: str, given: Sequence[Passage], rerank: Rerank) -> list[Passage]:
        if rerank.provider == "local":
            model = await asyncio.to_thread(self._cross_encoders.load, rerank.model)
            scores = await model.scores(question, [each.text for each in given])
            return [given[index] for index in sorted(range(len(given)), key=lambda each: -scores[each])]
        reranker = await self._reranker(rerank)
        numbered = [library_passage(each, str(index)) for index, each in enumerate(given)]
        return [given[int(each.id)] for each in await reranker.rerank(question, numbered)]

    async def _reranker(self, rerank: Rerank) -> Reranker:
        key = await self._secrets.header(rerank.api_key) if rerank.api_key else None
        if rerank.provider == "tei":
            return TeiReranker(rerank.base_url, api_key=key, timeout=RERANK_SECONDS, http=self._http)
        return CohereReranker(rerank.base_url, model=rerank.model, api_key=key, timeout=RERANK_SECONDS, http=self._http)


def capped(passages: Iterable[Passage], max_results: dict[str, int]) -> list[Passage]:
    """The first passages of each base, in the given order.

    Args:
        max_results: maximum number of passages, by base.
    """
    counts: Counter[str] = Counter()
    chosen: list[Passage] = []
    for each in passages:
        if counts[each.base] < max_results[each.base]:
            counts[each.base] += 1
            chosen.append(each)
    return chosen


def _best(passages: Sequence[Passage]) -> list[Passage]:
    if len(passages) <= MAX_RANKED:
        return list(passages)
    return sorted(passages, key=lambda each: each.place[:2])[:MAX_RANKED]
