"""Embeds queries."""

from __future__ import annotations

import asyncio
import logging
import math
from array import array
from collections.abc import Sequence
from typing import Protocol

import httpx
import msgspec

from ragstore_client._async.transport import AsyncTransport
from ragstore_client._call import Call
from ragstore_client._endpoint import parse_endpoint
from ragstore_client._exceptions import EmbeddingFailed, InvalidInput, RagstoreError, describe
from ragstore_client._json import encode
from ragstore_client._models import Base64, Embedding
from ragstore_client._responses import json_decoder
from ragstore_client._retries import RetryPolicy
from ragstore_client._vectors import to_float32
from ragstore_client.rag._config import DEFAULT_EMBEDDINGS_URL
from ragstore_client.rag._connections import connections

logger = logging.getLogger("ragstore_client.rag")


class Embedder(Protocol):
    """Embeds texts: a model in this process, another provider's API, or anything else with these two members."""

    @property
    def connection(self) -> str:
        """Identifies the embedder, without secrets: part of the key under which vectors are cached."""
        ...

    async def embed(self, text: str, *, model: str) -> Embedding:
        """Embed a text.

        Args:
            text: the text.
            model: name of the model that the searched collections were embedded with.

        Returns:
            The vector.

        Raises:
            EmbeddingFailed: there is no vector.
        """
        ...


class _Vector(msgspec.Struct):
    embedding: list[float] | str
    index: int | None = None


class _Vectors(msgspec.Struct):
    data: list[_Vector]


class EmbeddingsClient:
    """An `Embedder` that calls a TEI or OpenAI-compatible endpoint, `POST /v1/embeddings`.

    Args:
        url: URL of the server, without `/v1/embeddings`.
        timeout: time limit in seconds, retries included.
        api_key: sent as a bearer token.
        http: the httpx client; the event loop's pool when None.

    Raises:
        InvalidConfiguration: the URL or the key is not valid.
    """

    def __init__(
        self,
        url: str = DEFAULT_EMBEDDINGS_URL,
        *,
        timeout: float = 10.0,
        api_key: str | None = None,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._endpoint = parse_endpoint(url, api_key)
        self._timeout = timeout
        self._http = http

    @property
    def connection(self) -> str:
        """The server's URL, without user and password."""
        return self._endpoint.url

    async def embed(self, text: str, *, model: str) -> array[float]:
        """Embed one text.

        Args:
            text: the text.
            model: name of the model, as the server knows it.

        Returns:
            float32 values.

        Raises:
            EmbeddingFailed: the server returned no usable vector in time.
        """
        return (await self.embed_many([text], model=model))[0]

    async def embed_many(self, texts: Sequence[str], *, model: str) -> list[array[float]]:
        """Embed several texts in one request.

        Args:
            texts: the texts; the server limits their number.
            model: name of the model, as the server knows it.

        Returns:
            A vector of float32 values for each text, all of one dimension.

        Raises:
            EmbeddingFailed: the server returned no usable vectors in time.
        """
        body = encode({"model": model, "input": list(texts)})
        call = Call("POST", "/v1/embeddings", json_decoder(_Vectors), body=body)
        transport = AsyncTransport(
            await connections(self._http),
            self._endpoint,
            timeout=self._timeout,
            retries=RetryPolicy(attempts=3, base=0.1, cap=1.0, budget=self._timeout),
        )
        try:
            async with asyncio.timeout(self._timeout):
                response = await transport.send(call)
        except (RagstoreError, TimeoutError) as error:
            # The server's own message is not used: it may repeat the text that was sent.
            raise EmbeddingFailed(f"the embeddings endpoint failed: {describe(error)}") from None
        return _validate(response.data, len(texts))


def _validate(data: list[_Vector], expected: int) -> list[array[float]]:
    if len(data) != expected:
        raise EmbeddingFailed(f"the embeddings endpoint returned {len(data)} vectors for {expected} texts")
    if all(item.index is not None for item in data):
        data = sorted(data, key=lambda item: item.index or 0)
    try:
        vectors = [to_float32(_to_vector(item.embedding)) for item in data]
    except InvalidInput as error:
        raise EmbeddingFailed(f"the embeddings endpoint returned no usable vector: {error}") from None
    if len({len(vector) for vector in vectors}) > 1:
        raise EmbeddingFailed("the embeddings endpoint returned vectors of different dimensions")
    if not all(math.isfinite(sum(vector)) for vector in vectors):
        raise EmbeddingFailed("the embeddings endpoint returned a vector that is not finite")
    return vectors


def _to_vector(embedding: list[float] | str) -> list[float] | Base64:
    return Base64(embedding) if isinstance(embedding, str) else embedding
