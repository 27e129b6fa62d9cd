"""A source over collections of a ragstore service."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TypeAlias, cast

from ragstore_client._async.client import AsyncClient
from ragstore_client._exceptions import InvalidConfiguration
from ragstore_client._json import to_strings
from ragstore_client._models import CollectionError, Embedding, Match, MultiQueryResults, Strings, Where, none_if_nan
from ragstore_client._sync.client import Client
from ragstore_client._types import FloatArray
from ragstore_client._vectors import to_float32
from ragstore_client.context._passages import Passage
from ragstore_client.context._single_flight import SingleFlight
from ragstore_client.context._sources import FailureReason, PartialSearch, seconds_before
from ragstore_client.rag._connections import search_retries
from ragstore_client.rag._fanout import search_jointly

Embed: TypeAlias = "Callable[[str], Awaitable[Embedding]] | Callable[[str], Embedding]"
"""Embeds a text. A plain function runs in a thread, which no time limit ends; its result is then not used."""

_DEFAULT_SECONDS = 30.0
_GATEWAY_TIMEOUT = 504


class ClientSource:
    """Searches collections of a ragstore service.

    Args:
        client: a client of the service; the caller closes it. A synchronous one is used in threads: an asynchronous one
            can leave a call that hangs immediately.
        embed: embeds a question: a function or a coroutine function, such as
            `functools.partial(EmbeddingsClient(url).embed, model="...")`.
        collections: the collections to search where a scope names none.
    """

    def __init__(self, client: AsyncClient | Client, embed: Embed, *, collections: Strings = ()) -> None:
        self._client = client
        self._embed = embed
        self._collections = list(dict.fromkeys(to_strings(collections, "collections")))
        self._headers: Mapping[str, str] = {}
        self._flights: SingleFlight[str, FloatArray] = SingleFlight()

    def scoped(self, *, collections: Strings | None = None, headers: Mapping[str, str] | None = None) -> ClientSource:
        """The same source for one search. See `ScopedSource.scoped`."""
        source = copy.copy(self)
        source._collections = (
            self._collections if collections is None else list(dict.fromkeys(to_strings(collections, "collections")))
        )
        source._headers = {**self._headers, **(headers or {})}
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

        Concurrent searches for the same text embed it once.

        Raises:
            PartialSearch: some of the collections failed.
            RagstoreError: the question could not be embedded, or no collection could be searched.
        """
        if not self._collections:
            raise InvalidConfiguration("neither the scope nor the source names a collection")
        embedding = await self._flights.run(query, lambda: self._vector(query))
        seconds = _DEFAULT_SECONDS if deadline is None else seconds_before(deadline)

        def search(collections: list[str]) -> Coroutine[object, object, MultiQueryResults]:
            return self._query(collections, embedding, top_k, where, with_embeddings, seconds)

        found = await search_jointly(self._collections, search, seconds)
        passages = [_to_passage(match) for match in found.results]
        if found.errors:
            raise _partial(passages, found.errors)
        return passages

    async def _vector(self, query: str) -> FloatArray:
        made: Embedding | Awaitable[Embedding]
        if inspect.iscoroutinefunction(self._embed):
            made = self._embed(query)
        else:
            made = await asyncio.to_thread(cast("Callable[[str], Embedding]", self._embed), query)
        return to_float32(await made if isinstance(made, Awaitable) else made)

    async def _query(
        self,
        collections: list[str],
        embedding: FloatArray,
        top_k: int,
        where: Where | None,
        with_embeddings: bool,
        seconds: float,
    ) -> MultiQueryResults:
        names = collections[0] if len(collections) == 1 else collections
        retries = search_retries(seconds)
        if isinstance(self._client, AsyncClient):
            # The caller cancels the call in time. If the call's own time limit cancelled it again while httpx closes
            # the connection, the connection would stay in the pool, open and unusable (httpcore 1.0).
            patient = self._client.with_options(timeout=seconds + 1, retries=retries, headers=self._headers)
            return await patient.query_collections(
                names, embedding, top_k=top_k, where=where, include_embeddings=with_embeddings
            )
        client = self._client.with_options(timeout=seconds, retries=retries, headers=self._headers)
        return await asyncio.to_thread(
            client.query_collections, names, embedding, top_k=top_k, where=where, include_embeddings=with_embeddings
        )


def _to_passage(match: Match) -> Passage:
    return Passage(
        id=match.id,
        text=match.text,
        metadata=match.metadata,
        similarity=none_if_nan(match.score),
        embedding=match.embedding,
        collection=match.collection,
    )


def _partial(passages: Sequence[Passage], errors: Iterable[CollectionError]) -> PartialSearch:
    statuses = sorted({error.status for error in errors})
    reason: FailureReason = "timeout" if _GATEWAY_TIMEOUT in statuses else "failed"
    return PartialSearch(passages, reason, [str(status) for status in statuses])
