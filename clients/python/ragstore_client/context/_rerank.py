"""Orders passages with a reranking model, which reads the question and each passage together.

Two protocols are spoken: `/rerank` of text-embeddings-inference (TEI), and Cohere's `/v2/rerank`, which vLLM, Jina and
LiteLLM speak as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeAlias, runtime_checkable

import httpx
import msgspec

from ragstore_client._async.transport import AsyncTransport
from ragstore_client._call import Call
from ragstore_client._endpoint import parse_endpoint
from ragstore_client._exceptions import UnexpectedResponse
from ragstore_client._httpx import ssl_context, timeout_error
from ragstore_client._json import encode
from ragstore_client._retries import RetryPolicy
from ragstore_client.context._passages import Passage, checked
from ragstore_client.rag._connections import LoopThread

MAX_TEI_BATCH: Final = 32
"""TEI's default maximum number of texts in one request (`--max-client-batch-size`)."""

MAX_COHERE_BATCH: Final = 1_000
"""Maximum number of documents in one request that Cohere recommends."""


RerankFunction: TypeAlias = Callable[[str, Sequence[Passage]], "Sequence[Passage] | Awaitable[Sequence[Passage]]"]
"""Orders passages by their relevance to a question, the most relevant first. It may leave some out."""


@runtime_checkable
class Reranker(Protocol):
    """Orders passages by their relevance to a question."""

    async def rerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Order passages.

        Args:
            query: the question.
            passages: the passages, in any order.
            top_k: maximum number of passages to return.

        Returns:
            The most relevant passage first.
        """
        ...


async def apply_reranker(reranker: Reranker | RerankFunction, query: str, passages: Sequence[Passage]) -> list[Passage]:
    """Order passages with a reranker of any kind. A plain function runs in a thread.

    Args:
        reranker: an object with a method `rerank`, or a function.
        query: the question.

    Returns:
        The passages, each once.

    Raises:
        TypeError: the reranker returned something else. It may raise anything.
    """
    made: Sequence[Passage] | Awaitable[Sequence[Passage]]
    if isinstance(reranker, Reranker):
        made = reranker.rerank(query, passages)
    elif inspect.iscoroutinefunction(reranker):
        made = reranker(query, passages)
    else:
        made = await asyncio.to_thread(reranker, query, passages)
    ranked = [checked(passage) for passage in (await made if isinstance(made, Awaitable) else made)]
    found = {id(passage): passage for passage in ranked if passage is not None}
    if None in ranked:
        raise TypeError("a reranker must return passages")
    return list(found.values())


class _Score(msgspec.Struct):
    index: int
    score: float


class _CohereScore(msgspec.Struct):
    index: int
    relevance_score: float


class _CohereScores(msgspec.Struct):
    results: list[_CohereScore]


class _HttpReranker(ABC):
    """Sends passages to a server in batches, and orders them by its scores.

    Args:
        url: base URL of the server, without the path of the call.
        api_key: sent as a bearer token.
        timeout: time limit in seconds, retries and all batches included.
        max_batch: maximum number of passages in one request.
        http: the httpx client; one for each call when None. Its connections belong to the event loop that uses it
            first, so call either `rerank` or `rerank_sync`.
        loop_thread: runs `rerank_sync`; a new thread, when it is called, when None.

    Raises:
        InvalidConfiguration: the URL or the key is not valid.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout: float = 5.0,
        max_batch: int,
        http: httpx.AsyncClient | None = None,
        loop_thread: LoopThread | None = None,
    ) -> None:
        self._endpoint = parse_endpoint(url, api_key)
        self._timeout = timeout
        self._retries = RetryPolicy(attempts=2, base=0.1, budget=timeout)
        self._max_batch = max(1, max_batch)
        self._http = http
        self._loop_thread = loop_thread or LoopThread()

    async def rerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Order passages; the batches are sent concurrently.

        Args:
            query: the question.
            passages: the passages, in any order.
            top_k: maximum number of passages to return.

        Returns:
            The most relevant passage first. Their similarities are unchanged.

        Raises:
            RagstoreError: the server returned no usable scores in time.
        """
        calls = self._calls(query, passages)
        if not calls:
            return []
        async with contextlib.AsyncExitStack() as stack:
            http = self._http
            if http is None:
                http = await stack.enter_async_context(httpx.AsyncClient(verify=ssl_context()))
            transport = AsyncTransport(http, self._endpoint, timeout=self._timeout, retries=self._retries)
            try:
                async with asyncio.timeout(self._timeout), asyncio.TaskGroup() as group:
                    tasks = [group.create_task(transport.send(call)) for call in calls]
            except TimeoutError:
                raise timeout_error(self._timeout) from None
            except ExceptionGroup as errors:
                raise _first(errors) from None
        return _ordered(passages, [task.result() for task in tasks], top_k)

    def rerank_sync(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Order passages, for synchronous callers. See `rerank`."""
        return self._loop_thread.run(self.rerank(query, passages, top_k=top_k))

    def _calls(self, query: str, passages: Sequence[Passage]) -> list[Call[list[float]]]:
        texts = [passage.text for passage in passages]
        return [
            self._call(query, texts[start : start + self._max_batch]) for start in range(0, len(texts), self._max_batch)
        ]

    @abstractmethod
    def _call(self, query: str, texts: list[str]) -> Call[list[float]]:
        """The call for one batch, which decodes to the score of each text."""


class TeiReranker(_HttpReranker):
    """A `Reranker` that calls `POST /rerank` of text-embeddings-inference.

    Args:
        url: base URL of the server.
        api_key: sent as a bearer token.
        timeout: time limit in seconds.
        max_batch: maximum number of passages in one request; the server's `--max-client-batch-size`.
        http: the httpx client; one for each call when None. Call either `rerank` or `rerank_sync` with it.
        loop_thread: runs `rerank_sync`; a new thread, when it is called, when None.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout: float = 5.0,
        max_batch: int = MAX_TEI_BATCH,
        http: httpx.AsyncClient | None = None,
        loop_thread: LoopThread | None = None,
    ) -> None:
        super().__init__(url, api_key=api_key, timeout=timeout, max_batch=max_batch, http=http, loop_thread=loop_thread)

    def _call(self, query: str, texts: list[str]) -> Call[list[float]]:
        # Raw scores of several batches can be compared; normalised ones need not be comparable.
        body = encode({"query": query, "texts": texts, "raw_scores": True, "truncate": True})

        def decode(raw: bytes) -> list[float]:
            return _scores(msgspec.json.decode(raw, type=list[_Score]), len(texts))

        return Call("POST", "/rerank", decode, body=body)


class CohereReranker(_HttpReranker):
    """A `Reranker` that calls `POST /v2/rerank` of Cohere, or of a server that is compatible with it.

    Args:
        url: base URL of the server.
        model: name of the model.
        api_key: sent as a bearer token.
        timeout: time limit in seconds.
        max_batch: maximum number of passages in one request.
        http: the httpx client; one for each call when None. Call either `rerank` or `rerank_sync` with it.
        loop_thread: runs `rerank_sync`; a new thread, when it is called, when None.
    """

    def __init__(
        self,
        url: str = "https://api.cohere.com",
        *,
        model: str,
        api_key: str | None = None,
        timeout: float = 5.0,
        max_batch: int = MAX_COHERE_BATCH,
        http: httpx.AsyncClient | None = None,
        loop_thread: LoopThread | None = None,
    ) -> None:
        super().__init__(url, api_key=api_key, timeout=timeout, max_batch=max_batch, http=http, loop_thread=loop_thread)
        self._model = model

    def _call(self, query: str, texts: list[str]) -> Call[list[float]]:
        # Without `top_n`, a server may return fewer results than documents.
        body = encode({"model": self._model, "query": query, "documents": texts, "top_n": len(texts)})

        def decode(raw: bytes) -> list[float]:
            results = msgspec.json.decode(raw, type=_CohereScores).results
            return _scores([_Score(each.index, each.relevance_score) for each in results], len(texts))

        return Call("POST", "/v2/rerank", decode, body=body)


def _scores(given: Sequence[_Score], expected: int) -> list[float]:
    """The scores in the order of the texts."""
    by_index = {each.index: each.score for each in given}
    if len(given) != expected or by_index.keys() != set(range(expected)):
        raise UnexpectedResponse(f"the reranker returned {len(given)} scores for {expected} passages", 200)
    return [by_index[index] for index in range(expected)]


def _ordered(passages: Sequence[Passage], batches: Sequence[Sequence[float]], top_k: int | None) -> list[Passage]:
    scores = [score for batch in batches for score in batch]
    order = sorted(range(len(passages)), key=lambda index: -scores[index])
    return [passages[index] for index in order[:top_k]]


def _first(errors: ExceptionGroup) -> Exception:
    """The error of the batch that failed first."""
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, ExceptionGroup) else error
