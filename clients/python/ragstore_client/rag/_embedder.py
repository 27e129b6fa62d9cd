"""Embeds queries."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from http.client import responses
from typing import Protocol

import httpx
import msgspec

from ragstore_client._async.transport import AsyncTransport
from ragstore_client._call import Call
from ragstore_client._endpoint import parse_endpoint
from ragstore_client._exceptions import (
    EmbeddingFailed,
    EmbeddingTimeout,
    InvalidInput,
    ProblemError,
    RagstoreError,
    TransportError,
    UnexpectedResponse,
)
from ragstore_client._httpx import is_timeout
from ragstore_client._json import encode, to_strings
from ragstore_client._models import Base64, Embedding, Strings
from ragstore_client._responses import json_decoder
from ragstore_client._retries import RetryPolicy
from ragstore_client._types import FloatArray
from ragstore_client._vectors import to_float32
from ragstore_client.rag._config import DEFAULT_EMBEDDINGS_URL
from ragstore_client.rag._connections import connections

_OPENAI_PATH = "/v1/embeddings"
_EMBED_PATH = "/embed"


class Embedder(Protocol):
    """Embeds texts: a model in this process, another provider's API, or anything else with these two members."""

    @property
    def connection(self) -> str:
        """Identifies the embedder, without secrets: part of the key under which vectors are cached."""
        ...

    def embed(self, text: str, *, model: str) -> Embedding | Awaitable[Embedding]:
        """Embed a text: a coroutine function, or a plain function, which then runs in a thread.

        Args:
            model: name of the model that the searched collections were embedded with.

        Returns:
            The vector.

        Raises:
            EmbeddingFailed: there is no vector; an `EmbeddingTimeout` if there is none in time.
        """
        ...


class _Vector(msgspec.Struct):
    embedding: list[float] | str
    index: int | None = None


class _Vectors(msgspec.Struct):
    data: list[_Vector]


class _Embedded(msgspec.Struct):
    """The response of a small server of one model to `POST /embed`; TEI's is the list alone."""

    vectors: list[list[float]]


class EmbeddingsClient:
    """An `Embedder` that calls a TEI or OpenAI-compatible endpoint.

    Args:
        url: URL of the server. `POST /v1/embeddings` is called, whether the URL ends before it, with `/v1` or with all
            of it. A URL that ends with `/embed` is called as it is, as TEI and servers of one model are:
            `{"inputs": [...], "normalize": true}`.
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
        base, self._path = _split(url)
        self._endpoint = parse_endpoint(base, api_key)
        self._timeout = timeout
        self._http = http

    @property
    def connection(self) -> str:
        """The server's URL, without user and password."""
        return self._endpoint.url + ("" if self._path == _OPENAI_PATH else self._path)

    async def embed(self, text: str, *, model: str) -> FloatArray:
        """Embed one text.

        Args:
            model: name of the model, as the server knows it.

        Returns:
            float32 values.

        Raises:
            EmbeddingFailed: the server returned no usable vector; an `EmbeddingTimeout` if it returned none in time.
        """
        return (await self.embed_many([text], model=model))[0]

    async def embed_many(self, texts: Strings, *, model: str) -> list[FloatArray]:
        """Embed several texts in one request.

        Args:
            texts: the texts; the server limits their number.
            model: name of the model, as the server knows it.

        Returns:
            A vector of float32 values for each text, all of one dimension.

        Raises:
            EmbeddingFailed: the server returned no usable vectors; an `EmbeddingTimeout` if it returned none in time.
        """
        given = to_strings(texts, "texts")
        where = f"{self._endpoint.url}{self._path}, model {model!r}"
        try:
            async with asyncio.timeout(self._timeout):
                found = await self._send(given, model)
            return _validate(found, len(given))
        except TimeoutError as error:
            raise EmbeddingTimeout(f"{where}: no vectors within {self._timeout:g} s") from error
        except RagstoreError as error:
            failure = EmbeddingTimeout if is_timeout(error) else EmbeddingFailed
            # The server's own message is not part of the text: it may repeat what was sent.
            raise failure(f"{where}: {_reason(error)}") from error

    async def _send(self, texts: list[str], model: str) -> list[_Vector]:
        transport = AsyncTransport(
            await connections(self._http),
            self._endpoint,
            timeout=self._timeout,
            retries=RetryPolicy(attempts=3, base=0.1, cap=1.0, budget=self._timeout),
        )
        if self._path == _EMBED_PATH:
            body = encode({"inputs": texts, "normalize": True})
            found = await transport.send(Call("POST", self._path, _decode_embedded, body=body))
            return [_Vector(vector) for vector in found]
        body = encode({"model": model, "input": texts})
        return (await transport.send(Call("POST", self._path, json_decoder(_Vectors), body=body))).data


def _split(url: str) -> tuple[str, str]:
    """The base URL of a server, and the path of its embeddings."""
    bare = url.strip().rstrip("/")
    if bare.endswith(_EMBED_PATH):
        return bare.removesuffix(_EMBED_PATH), _EMBED_PATH
    return bare.removesuffix("/embeddings").removesuffix("/v1"), _OPENAI_PATH


def _decode_embedded(body: bytes) -> list[list[float]]:
    found = msgspec.json.decode(body, type=list[list[float]] | _Embedded)
    return found.vectors if isinstance(found, _Embedded) else found


def _reason(error: RagstoreError) -> str:
    if isinstance(error, ProblemError):
        phrase = responses.get(error.status, "")
        return f"HTTP {error.status} {phrase}".strip()
    if isinstance(error, TransportError | UnexpectedResponse):
        return str(error.args[0])
    return str(error)


def _validate(data: list[_Vector], expected: int) -> list[FloatArray]:
    if len(data) != expected:
        raise InvalidInput(f"{len(data)} vectors for {expected} texts")
    if all(item.index is not None for item in data):
        data = sorted(data, key=lambda item: item.index or 0)
    vectors = [to_float32(_to_vector(item.embedding)) for item in data]
    if len({len(vector) for vector in vectors}) > 1:
        raise InvalidInput("vectors of different dimensions")
    if not all(math.isfinite(sum(vector)) for vector in vectors):
        raise InvalidInput("a vector that is not finite")
    return vectors


def _to_vector(embedding: list[float] | str) -> list[float] | Base64:
    return Base64(embedding) if isinstance(embedding, str) else embedding
