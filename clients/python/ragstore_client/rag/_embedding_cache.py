"""A cache of query vectors."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import OrderedDict
from collections.abc import Awaitable

from ragstore_client._exceptions import EmbeddingFailed, InvalidInput
from ragstore_client._models import Embedding
from ragstore_client._types import FloatArray
from ragstore_client._vectors import to_float32
from ragstore_client.rag._embedder import Embedder

logger = logging.getLogger("ragstore_client.rag")


class EmbeddingCache:
    """A least-recently-used cache of vectors, by `connection:model` and text. Threads may share it.

    Args:
        capacity: maximum number of vectors; one of 768 dimensions takes 3 KiB.
    """

    def __init__(self, capacity: int = 1024) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._vectors: OrderedDict[tuple[str, str], FloatArray] = OrderedDict()

    async def embed(self, embedder: Embedder, text: str, *, model: str, archives: int = 1) -> FloatArray:
        """Get a vector from the cache, or from the embedder. Hits are logged, without the text.

        Args:
            embedder: embeds a text that is not cached.
            model: name of the model.
            archives: number of collections that the vector is for: the first may cause a miss, the others reuse it.

        Returns:
            float32 values.

        Raises:
            EmbeddingFailed: the embedder returned no usable vector.
        """
        key = (f"{embedder.connection}:{model}", text)
        vector = self._get(key)
        hits = archives
        if vector is None:
            hits = archives - 1
            try:
                vector = to_float32(await _embed(embedder, text, model))
            except InvalidInput as error:
                raise EmbeddingFailed(f"{embedder.connection}, model {model!r}: no usable vector: {error}") from error
            self._put(key, vector)
        if hits:
            logger.info("Embedding cache hit for %s: reused for %d collection queries", key[0], hits)
        return vector

    def _get(self, key: tuple[str, str]) -> FloatArray | None:
        with self._lock:
            vector = self._vectors.get(key)
            if vector is not None:
                self._vectors.move_to_end(key)
            return vector

    def _put(self, key: tuple[str, str], vector: FloatArray) -> None:
        with self._lock:
            self._vectors[key] = vector
            self._vectors.move_to_end(key)
            while len(self._vectors) > self._capacity:
                self._vectors.popitem(last=False)


async def _embed(embedder: Embedder, text: str, model: str) -> Embedding:
    """Embed a text. A plain function runs in a thread, since it may compute for long."""
    if inspect.iscoroutinefunction(embedder.embed):
        waiting: Awaitable[Embedding] = embedder.embed(text, model=model)
        return await waiting
    made: Embedding | Awaitable[Embedding] = await asyncio.to_thread(embedder.embed, text, model=model)
    return await made if isinstance(made, Awaitable) else made
