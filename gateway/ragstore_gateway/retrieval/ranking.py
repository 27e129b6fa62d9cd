"""Orders the candidates of a context: by diversity, or by a reranking model."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import httpx

from ragstore_client.context import CohereReranker, Passage, Reranker, TeiReranker, maximal_marginal_relevance
from ragstore_gateway.configurations.assistant import Rerank
from ragstore_gateway.embeddings.cross_encoder import CrossEncoders
from ragstore_gateway.embeddings.embedder import Embedder, Vectors
from ragstore_gateway.retrieval.context import Candidate
from ragstore_gateway.secrets.secret_references import SecretReferences
from ragstore_gateway.vector_stores.vector_store import Vector

FAN_OUT: Final = 3
"""Hits fetched for each result of a base, if a ranking chooses among them."""

MAX_CANDIDATES: Final = 200
"""Maximum number of candidates of a ranking: those with the highest scores."""

RERANK_SECONDS: Final = 5.0


class Ranking:
    """Orders candidates.

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

    async def diverse(self, candidates: Sequence[Candidate], diversity: float, *, same_model: bool) -> list[Candidate]:
        """Order candidates by maximal marginal relevance. The similarity to the question is the base's own.

        Their own vectors are compared if all have one. Otherwise, their texts are embedded.

        Args:
            diversity: 0 to 1.
            same_model: whether their vectors are of one model.

        Raises:
            ServiceError: the provider of embeddings failed.
        """
        given = _best(candidates)
        own = [each.hit.vector for each in given if each.hit.vector is not None] if same_model else []
        vectors: Sequence[Vector] | Vectors = own
        if len(own) < len(given):
            vectors = await self._embedder.embed([each.hit.text for each in given], "document")
        passages = [
            _passage(index, each, vector) for index, (each, vector) in enumerate(zip(given, vectors, strict=True))
        ]
        ordered = maximal_marginal_relevance(None, passages, k=len(passages), diversity=diversity)
        return [given[int(passage.id)] for passage in ordered]

    async def reranked(self, question: str, candidates: Sequence[Candidate], rerank: Rerank) -> list[Candidate]:
        """Order candidates by a model that reads the question and each of them together.

        Args:
            rerank: the server, or the local model.

        Raises:
            RagstoreError: the server returned no usable scores in time.
            ServiceError: its key cannot be read, or the local model cannot be used.
        """
        given = _best(candidates)
        if rerank.provider == "local":
            model = await asyncio.to_thread(self._cross_encoders.load, rerank.model)
            scores = await model.scores(question, [each.hit.text for each in given])
            return [given[index] for index in sorted(range(len(given)), key=lambda each: -scores[each])]
        reranker = await self._reranker(rerank)
        passages = [_passage(index, each) for index, each in enumerate(given)]
        return [given[int(passage.id)] for passage in await reranker.rerank(question, passages)]

    async def _reranker(self, rerank: Rerank) -> Reranker:
        key = await self._secrets.header(rerank.api_key) if rerank.api_key else None
        if rerank.provider == "tei":
            return TeiReranker(rerank.base_url, api_key=key, timeout=RERANK_SECONDS, http=self._http)
        return CohereReranker(rerank.base_url, model=rerank.model, api_key=key, timeout=RERANK_SECONDS, http=self._http)


def capped(candidates: Iterable[Candidate], max_results: dict[str, int]) -> list[Candidate]:
    """The first candidates of each base, in the given order.

    Args:
        max_results: maximum number of candidates, by base.
    """
    counts: Counter[str] = Counter()
    chosen: list[Candidate] = []
    for each in candidates:
        if counts[each.base] < max_results[each.base]:
            counts[each.base] += 1
            chosen.append(each)
    return chosen


def _best(candidates: Sequence[Candidate]) -> list[Candidate]:
    if len(candidates) <= MAX_CANDIDATES:
        return list(candidates)
    return sorted(candidates, key=lambda each: each.hit.place[:2])[:MAX_CANDIDATES]


def _passage(index: int, each: Candidate, embedding: Vector | None = None) -> Passage:
    return Passage(
        id=str(index), text=each.hit.text, similarity=2 * each.hit.score - 1, embedding=embedding, collection=each.base
    )
