"""From a query's text to its vector."""

from __future__ import annotations

import asyncio
import logging
import math
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from ragstore_client._async.transport import AsyncTransport
from ragstore_client._call import Call
from ragstore_client._endpoint import parse_endpoint
from ragstore_client._exceptions import EmbeddingFailed, InvalidInput, RagstoreError, describe
from ragstore_client._json import encode
from ragstore_client._responses import json_decoder
from ragstore_client._retries import RetryPolicy
from ragstore_client._vectors import to_float32
from ragstore_client.rag._config import DEFAULT_EMBEDDINGS_URL
from ragstore_client.rag._connections import shared_http

if TYPE_CHECKING:
    from ragstore_client._models import Embedding

logger = logging.getLogger("ragstore_client.rag")


class Embedder(Protocol):
    """Whatever can make a vector of a text.

    A model in this process, another provider's API: anything with these two members can stand in.
    """

    @property
    def connection(self) -> str:
        """What tells this embedder from others, without secrets: part of the key under which vectors are kept."""
        ...

    async def embed(self, text: str, *, model: str) -> Embedding:
        """Make a vector.

        Args:
            text: the text.
            model: the model that made the vectors of the collections to search.

        Returns:
            The vector.

        Raises:
            EmbeddingFailed: there is none.
        """
        ...


class _Vector(msgspec.Struct):
    embedding: list[float] | str
    index: int | None = None


class _Vectors(msgspec.Struct):
    data: list[_Vector]


class EmbeddingsClient:
    """An `Embedder` that asks a TEI or OpenAI-compatible endpoint, `POST /v1/embeddings`.

    Args:
        url: the server, without `/v1/embeddings`.
        timeout: seconds for an answer, tries included.
        api_key: sent as a bearer token.

    Raises:
        InvalidConfiguration: the URL or the key is none.
    """

    def __init__(self, url: str = DEFAULT_EMBEDDINGS_URL, *, timeout: float = 10.0, api_key: str | None = None) -> None:
        self._endpoint = parse_endpoint(url, api_key)
        self._timeout = timeout

    @property
    def connection(self) -> str:
        """The server's URL, without user and password."""
        return self._endpoint.url

    async def embed(self, text: str, *, model: str) -> array[float]:
        """Make the vector of one text.

        Args:
            text: the text.
            model: the model's name, as the server knows it.

        Returns:
            float32 values.

        Raises:
            EmbeddingFailed: no usable vector came in time.
        """
        return (await self.embed_many([text], model=model))[0]

    async def embed_many(self, texts: Sequence[str], *, model: str) -> list[array[float]]:
        """Make the vectors of several texts in one request.

        Args:
            texts: the texts; the server limits how many.
            model: the model's name, as the server knows it.

        Returns:
            A vector of float32 values for each text, all of one dimension.

        Raises:
            EmbeddingFailed: no usable vectors came in time.
        """
        body = encode({"model": model, "input": list(texts)})
        call = Call("POST", "/v1/embeddings", json_decoder(_Vectors), body=body)
        transport = AsyncTransport(
            await shared_http(),
            self._endpoint,
            timeout=self._timeout,
            retries=RetryPolicy(attempts=3, base=0.1, cap=1.0, budget=self._timeout),
        )
        try:
            async with asyncio.timeout(self._timeout):
                answer = await transport.send(call)
        except (RagstoreError, TimeoutError) as error:
            # Not the server's own words: it may repeat the text that it was sent.
            raise EmbeddingFailed(f"the embeddings endpoint failed: {describe(error)}") from None
        return _usable(answer.data, len(texts))


def _usable(data: list[_Vector], expected: int) -> list[array[float]]:
    if len(data) != expected:
        raise EmbeddingFailed(f"the embeddings endpoint gave {len(data)} vectors for {expected} texts")
    if all(item.index is not None for item in data):
        data = sorted(data, key=lambda item: item.index or 0)
    try:
        vectors = [to_float32(item.embedding) for item in data]
    except InvalidInput as error:
        raise EmbeddingFailed(f"the embeddings endpoint gave no vector: {error}") from None
    if len({len(vector) for vector in vectors}) > 1:
        raise EmbeddingFailed("the embeddings endpoint gave vectors of different dimensions")
    if not all(math.isfinite(sum(vector)) for vector in vectors):
        raise EmbeddingFailed("the embeddings endpoint gave a vector that is not finite")
    return vectors
