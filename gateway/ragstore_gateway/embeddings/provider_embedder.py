"""`ProviderEmbedder`: sends texts to a provider, in batches, each with retries within a time limit."""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import aiohttp
import msgspec
import numpy as np
import structlog
from prometheus_client import Counter, Histogram
from yarl import URL

from ragstore.kit.byte_budget import temporary_copies
from ragstore.kit.deferred_metrics import BUCKETS
from ragstore.kit.errors import ServiceError
from ragstore.kit.fair_queue import FairSemaphore
from ragstore.kit.tracing.spans import SetAttribute, outgoing_headers, span
from ragstore_gateway.embeddings.batches import batches
from ragstore_gateway.embeddings.call_deadline import call_deadline
from ragstore_gateway.embeddings.embedder import Kind, Vectors, normalized
from ragstore_gateway.embeddings.providers.provider import (
    MAX_DIMENSIONS,
    Embedding,
    GarbledResponse,
    Provider,
    ProviderRequest,
)
from ragstore_gateway.embeddings.retries import MAX_ATTEMPTS, backoff, is_temporary, retry_after
from ragstore_gateway.errors import (
    EmbeddingFailed,
    EmbeddingRateLimited,
    EmbeddingRejected,
    EmbeddingTimeout,
    EmbeddingUnavailable,
    ModelUnavailable,
)
from ragstore_gateway.secrets.connections import Connections

MAX_RESPONSE_BYTES: Final = 128 * 1024 * 1024
"""Maximum size of a response to any batch."""

MAX_VECTOR_BYTES: Final = MAX_DIMENSIONS * 32
"""Maximum size of a vector in a response. A number has up to 24 characters; decoded, the shortest ones take 16 times
their size in memory."""

RESPONSE_COPIES: Final = 4
"""A response takes this many times its size: as received, as bytes, and as numbers, which are about twice as large."""

MAX_FRAME_BYTES: Final = 64 * 1024
"""Maximum size of the rest of a response."""

MAX_RETRY_AFTER_SECONDS: Final = 3_600
"""Maximum of `Retry-After` in the gateway's response. A provider may send any number."""

TOO_LONG: Final = frozenset({400, 413, 422})
"""Statuses with which providers reject a text that is longer than the model takes, among other causes."""

REQUESTS: Final = Counter(
    "ragstore_gateway_embedding_requests_total",
    "Requests to embedding providers, by provider and status; `failed` without a response.",
    ["provider", "status"],
)
SECONDS: Final = Histogram(
    "ragstore_gateway_embedding_request_duration_seconds",
    "Duration of requests to embedding providers, in seconds.",
    ["provider"],
    buckets=BUCKETS,
)

_log = structlog.get_logger(__name__)


class _Retry(Exception):
    """An attempt failed, and another one may succeed.

    Args:
        error: the error if there is no further attempt.
        wait: the wait that the provider demands, in seconds.
    """

    def __init__(self, error: ServiceError, wait: float | None = None) -> None:
        self.error = error
        self.wait = wait


class ProviderEmbedder:
    """An `Embedder` over a provider.

    Args:
        name: the provider's name.
        connections: the pool.
        slots: the slots for requests in flight, which callers get in turn.
        concurrency: maximum number of requests in flight of one call.
        timeout_seconds: time limit of a batch, its retries included. It begins with the first slot of the batch, and
            further waits for slots do not count. It is also the time limit of a whole call of a request; see
            `call_deadline`.
    """

    def __init__(
        self,
        name: str,
        provider: Provider,
        connections: Connections,
        slots: FairSemaphore,
        *,
        concurrency: int,
        timeout_seconds: float,
    ) -> None:
        self._provider_name = name
        self._provider = provider
        self._connections = connections
        self._slots = slots
        self._concurrency = concurrency
        self._timeout_seconds = timeout_seconds
        self._dimension = provider.dimensions
        self.name = f"{name}/{provider.model}"

    @property
    def dimension(self) -> int | None:
        """The configured dimension, or the dimension of the first vectors: all later ones must have it, too."""
        return self._dimension

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        """Embed texts; see `Embedder`."""
        ends = call_deadline(self._timeout_seconds)
        try:
            async with asyncio.timeout_at(ends):
                vectors = await self._all(texts, kind, ends)
        except TimeoutError:
            raise EmbeddingTimeout(f"{self.name} did not embed the texts in time") from None
        self._check_dimension(vectors)
        return normalized(vectors) if normalize else vectors

    async def _all(self, texts: Sequence[str], kind: Kind, ends: float | None) -> Vectors:
        """Embed all texts, a batch a request. The first failure ends the other requests."""
        found: dict[int, Vectors] = {}
        # A batch is made when its turn comes: measuring many megabytes of texts would hold up other requests.
        pending = enumerate(batches(texts, self._provider.max_texts, self._provider.max_bytes))

        async def work() -> None:
            # Each worker takes the next batch, so that thousands of batches do not become thousands of tasks.
            for index, batch in pending:
                found[index] = await self._batch(batch, kind, ends)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._concurrency, len(texts))):
                    group.create_task(work())
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        rows = [found[index] for index in sorted(found)]
        if len({vectors.shape[1] for vectors in rows}) > 1:
            raise EmbeddingFailed(f"{self.name} returned vectors of different dimensions")
        return np.concatenate(rows)

    async def _batch(self, texts: list[str], kind: Kind, ends: float | None) -> Vectors:
        """Embed a batch, with retries.

        Args:
            ends: when the call ends, in the event loop's time; None for no end.

        Raises:
            TimeoutError: the provider did not respond in time.
        """
        request = self._provider.request(texts, kind)
        now = asyncio.get_running_loop().time
        left = self._timeout_seconds
        latest = now() + left
        attempt = 0
        while True:
            attempt += 1
            try:
                with temporary_copies() as count:
                    # Without a limit of its own: the slots are held by requests that have one.
                    async with self._slots.slot():
                        latest = now() + left
                        async with asyncio.timeout_at(latest):
                            content = await self._send(request, max_response_bytes(len(texts)), count)
                    return self._decoded(content, len(texts))
            except _Retry as failure:
                wait = backoff(attempt) if failure.wait is None else failure.wait
                left = latest - now() - wait
                # A wait beyond the deadline would only delay the error.
                if attempt >= MAX_ATTEMPTS or left <= 0 or (ends is not None and now() + wait >= ends):
                    raise failure.error from None
                _log.info("embedding request is retried", provider=self.name, attempt=attempt, wait_seconds=wait)
                await asyncio.sleep(wait)

    async def _send(self, request: ProviderRequest, max_bytes: int, count: Callable[[int], None]) -> bytes:
        """Send a request once, and read a response of at most `max_bytes`, which are counted.

        Raises:
            _Retry: another attempt may succeed.
            EmbeddingFailed: none will.
        """
        authorization = await self._provider.authorization(request)
        with span("embedding request", "client", {"model": self.name}) as describe:
            headers = {**outgoing_headers(), "Content-Type": "application/json", **request.headers, **authorization}
            return await self._response(request, headers, max_bytes, count, describe)

    async def _response(
        self,
        request: ProviderRequest,
        headers: Mapping[str, str],
        max_bytes: int,
        count: Callable[[int], None],
        describe: SetAttribute,
    ) -> bytes:
        """The body of the response to a request; see `_send`.

        Args:
            describe: sets attributes of the request's span.
        """
        provider = self._provider_name
        started = asyncio.get_running_loop().time()
        status = "failed"
        try:
            async with self._connections.session.post(
                URL(request.url, encoded=True), data=request.body, headers=headers, allow_redirects=False
            ) as response:
                status = str(response.status)
                describe("http.response.status_code", response.status)
                if response.status != 200:
                    raise self._rejection(response)
                return await self._content(response, max_bytes, count)
        except (aiohttp.ClientError, OSError, ValueError, asyncio.IncompleteReadError) as error:
            # The exception's own text may have parts of the response.
            _log.warning("embedding provider failed", provider=self.name, error=type(error).__name__)
            # A wrong certificate and an address that is not valid are ValueErrors, and do not end by themselves.
            kind = EmbeddingFailed if isinstance(error, ValueError) else EmbeddingUnavailable
            raise _Retry(kind(f"{self.name} cannot be reached: {type(error).__name__}")) from None
        finally:
            REQUESTS.labels(provider, status).inc()
            SECONDS.labels(provider).observe(asyncio.get_running_loop().time() - started)

    async def _content(self, response: aiohttp.ClientResponse, max_bytes: int, count: Callable[[int], None]) -> bytes:
        content = bytearray()
        async for chunk in response.content.iter_any():
            content += chunk
            count(len(chunk) * RESPONSE_COPIES)
            if len(content) > max_bytes:
                raise EmbeddingFailed(f"{self.name} returned a response that is too large")
        return bytes(content)

    def _rejection(self, response: aiohttp.ClientResponse) -> Exception:
        """The error for a status other than 200. The body is not read: it may repeat the texts."""
        status = response.status
        wait = retry_after(response.headers)
        _log.warning("embedding provider rejected a request", provider=self.name, status=status)
        if status == 429:
            seconds = min(MAX_RETRY_AFTER_SECONDS, max(1, math.ceil(wait or 1)))
            return _Retry(EmbeddingRateLimited(f"{self.name} is at its rate limit", seconds), wait)
        if is_temporary(status):
            return _Retry(EmbeddingUnavailable(f"{self.name} responded with status {status}"), wait)
        if status in (401, 403):
            return EmbeddingRejected(f"{self.name} did not accept the configured credentials (status {status})")
        if status == 404:
            return ModelUnavailable(f"{self.name} does not exist at the configured address (status 404)")
        hint = "; a text may be too long for the model" if status in TOO_LONG else ""
        return EmbeddingRejected(f"{self.name} rejected the request with status {status}{hint}")

    def _decoded(self, content: bytes, count: int) -> Vectors:
        """The vectors of a response, one per text.

        Raises:
            EmbeddingFailed: there are others, or they are no vectors.
        """
        try:
            embeddings = self._provider.decode(content)
            if len(embeddings) != count:
                raise EmbeddingFailed(f"{self.name} returned {len(embeddings)} vectors for {count} texts")
            vectors = _matrix(embeddings)
        except (GarbledResponse, msgspec.MsgspecError, UnicodeError, RecursionError, ValueError, OverflowError):
            raise EmbeddingFailed(f"{self.name} returned a response without usable vectors") from None
        if not np.isfinite(vectors).all():
            raise EmbeddingFailed(f"{self.name} returned a vector with a number that is not finite")
        return vectors

    def _check_dimension(self, vectors: Vectors) -> None:
        found = vectors.shape[1]
        if self._dimension is None:
            self._dimension = found
        if found != self._dimension:
            raise EmbeddingFailed(f"{self.name} returned vectors of dimension {found} instead of {self._dimension}")


def max_response_bytes(count: int) -> int:
    """Maximum size of the response to a batch.

    Args:
        count: number of texts.
    """
    return min(MAX_RESPONSE_BYTES, MAX_FRAME_BYTES + count * MAX_VECTOR_BYTES)


def _matrix(embeddings: Sequence[Embedding]) -> Vectors:
    """Vectors as a matrix.

    Raises:
        ValueError: they have different dimensions, or none.
    """
    rows = [_row(embedding) for embedding in embeddings]
    matrix = np.stack(rows)
    if matrix.ndim != 2 or not matrix.shape[1]:
        raise ValueError("a vector is empty")
    return matrix


def _row(embedding: Embedding) -> Vectors:
    if isinstance(embedding, str):
        try:
            return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
        except binascii.Error:
            raise ValueError("a vector is not base64") from None
    # A number beyond float32 becomes infinite, which is reported with the other numbers that are not finite.
    with np.errstate(over="ignore"):
        return np.asarray(embedding, dtype=np.float32)
