"""`CachingEmbedder`: keeps vectors, and computes each text once for concurrent callers. It keeps no texts."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Generator, Sequence
from typing import Final, TypeAlias

import numpy as np
from prometheus_client import Counter, Gauge

from ragstore.kit.context import current_caller
from ragstore.kit.errors import ServiceError
from ragstore.kit.time_slices import TimeSlices, run_whole
from ragstore_gateway.embeddings.call_deadline import call_deadline
from ragstore_gateway.embeddings.caller_limit import CallerLimit
from ragstore_gateway.embeddings.embedder import Embedder, Kind, Vectors, normalized
from ragstore_gateway.errors import EmbeddingTimeout

Key: TypeAlias = bytes
"""The SHA-256 of an embedder with its parameters, of the kind and of the text."""

OVERHEAD_BYTES: Final = 256
"""The size of an entry beyond its vector: key, array, slot of the dictionary. 252 bytes with CPython 3.11, measured."""

HASHED_CHARACTERS: Final = 65_536
"""Number of characters that are encoded and hashed in one step: about 0.1 ms."""

MAX_WHOLE_CHARACTERS: Final = 1_048_576
"""Number of characters up to which the texts of a call are hashed in one slice of the event loop."""

TEXTS: Final = Counter(
    "ragstore_gateway_embedding_texts_total",
    "Embedded texts: `cached`, `shared` with a request in flight, or `computed`.",
    ["source"],
)
BYTES: Final = Gauge("ragstore_gateway_embedding_cache_bytes", "Size of the cached vectors, in bytes.")


class VectorCache:
    """A least-recently-used cache of vectors for all embedders of a process.

    Args:
        max_bytes: its maximum size; 0 keeps nothing.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._vectors: OrderedDict[Key, Vectors] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._vectors)

    def get(self, key: Key) -> Vectors | None:
        """A vector, if there is one."""
        vector = self._vectors.get(key)
        if vector is not None:
            self._vectors.move_to_end(key)
        return vector

    def put(self, key: Key, vector: Vectors) -> None:
        """Keep a vector."""
        self._remove(key)
        self._vectors[key] = vector
        self.size_bytes += vector.nbytes + OVERHEAD_BYTES
        while self.size_bytes > self._max_bytes:
            self._remove(next(iter(self._vectors)))
        BYTES.set(self.size_bytes)

    def _remove(self, key: Key) -> None:
        vector = self._vectors.pop(key, None)
        if vector is not None:
            self.size_bytes -= vector.nbytes + OVERHEAD_BYTES


class _Flight:
    """A computation of several texts of one caller, and the number of its requests."""

    def __init__(self, keys: frozenset[Key], caller: str | None, task: asyncio.Task[dict[Key, Vectors]]) -> None:
        self.keys = keys
        self.caller = caller
        self.task = task
        self.callers = 0


class CachingEmbedder:
    """An `Embedder` around another one.

    Args:
        inner: computes vectors.
        cache: keeps them.
        identity: the provider and its parameters, as bytes; never with a secret.
        timeout_seconds: time limit of a call of a request, its wait for a turn included; see `call_deadline`.
        limit: limits the calls of each caller that compute vectors; None for no limit.
        slices: runs the hashing of large texts; None for slices of its own.
    """

    def __init__(
        self,
        inner: Embedder,
        cache: VectorCache,
        identity: bytes,
        *,
        timeout_seconds: float,
        limit: CallerLimit | None = None,
        slices: TimeSlices | None = None,
    ) -> None:
        self._inner = inner
        self._cache = cache
        self._identity = hashlib.sha256(identity).digest()
        self._timeout_seconds = timeout_seconds
        self._limit = limit or CallerLimit(None)
        self._slices = slices or TimeSlices()
        # Each caller has flights of its own: it would wait as long as another one that embeds a thousand texts more.
        self._flights: dict[tuple[str | None, Key], _Flight] = {}
        self.name = inner.name

    @property
    def dimension(self) -> int | None:
        """The dimension of the inner embedder."""
        return self._inner.dimension

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        """Embed texts; see `Embedder`. A text that is given twice is computed once."""
        try:
            async with asyncio.timeout_at(call_deadline(self._timeout_seconds)):
                vectors = await self._embed(texts, kind)
        except TimeoutError:
            raise EmbeddingTimeout(f"{self.name} did not embed the texts in time") from None
        return normalized(vectors) if normalize else vectors

    async def _embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        keys = await self._keys(texts, kind)
        caller = current_caller()
        wanted = dict(zip(keys, texts, strict=True))
        found: dict[Key, Vectors] = {}
        for key in wanted:
            vector = self._cache.get(key)
            if vector is not None:
                found[key] = vector
        TEXTS.labels("cached").inc(len(found))
        if len(found) < len(wanted):
            with self._limit.call():
                shared = {flight for key in wanted if key not in found and (flight := self._flights.get((caller, key)))}
                if shared:
                    found |= await self._joined(shared, wanted)
                missing = {key: text for key, text in wanted.items() if key not in found}
                if missing:
                    found |= await self._wait(self._start(missing, kind))
        return np.stack([found[key] for key in keys])

    async def _joined(self, flights: set[_Flight], wanted: dict[Key, str]) -> dict[Key, Vectors]:
        """The vectors of computations in flight. One that fails because of another caller's text is left out."""
        found: dict[Key, Vectors] = {}
        for flight in flights:
            flight.callers += 1
        try:
            for flight in flights:
                try:
                    found |= await asyncio.shield(flight.task)
                except ServiceError:
                    if flight.keys <= wanted.keys():
                        raise
        finally:
            for flight in flights:
                self._leave(flight)
        TEXTS.labels("shared").inc(len(found.keys() & wanted.keys()))
        return found

    def _start(self, missing: dict[Key, str], kind: Kind) -> _Flight:
        caller = current_caller()
        flight = _Flight(frozenset(missing), caller, asyncio.create_task(self._compute(missing, kind)))
        self._flights.update(dict.fromkeys(((caller, key) for key in flight.keys), flight))
        TEXTS.labels("computed").inc(len(missing))
        return flight

    async def _wait(self, flight: _Flight) -> dict[Key, Vectors]:
        flight.callers += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            self._leave(flight)

    def _leave(self, flight: _Flight) -> None:
        """A caller leaves. The last one ends the computation."""
        flight.callers -= 1
        if flight.callers and not flight.task.done():
            return
        for key in flight.keys:
            if self._flights.get((flight.caller, key)) is flight:
                del self._flights[flight.caller, key]
        if not flight.task.done():
            flight.task.cancel()
        elif not flight.task.cancelled():
            flight.task.exception()

    async def _compute(self, missing: dict[Key, str], kind: Kind) -> dict[Key, Vectors]:
        vectors = await self._inner.embed(list(missing.values()), kind, normalize=False)
        found: dict[Key, Vectors] = {}
        for key, vector in zip(missing, vectors, strict=True):
            # A copy: a row would keep the whole matrix in memory.
            found[key] = vector.copy()
            self._cache.put(key, found[key])
        return found

    async def _keys(self, texts: Sequence[str], kind: Kind) -> list[Key]:
        steps = self._hashed(texts, kind)
        if sum(map(len, texts)) <= MAX_WHOLE_CHARACTERS:
            return run_whole(steps)
        return await self._slices.run(steps)

    def _hashed(self, texts: Sequence[str], kind: Kind) -> Generator[None, None, list[Key]]:
        """The keys of texts, in steps."""
        start = hashlib.sha256(self._identity + kind.encode() + b"\0")
        keys = []
        for text in texts:
            key = start.copy()
            for first in range(0, len(text), HASHED_CHARACTERS):
                key.update(text[first : first + HASHED_CHARACTERS].encode("utf-8", "surrogatepass"))
                yield
            keys.append(key.digest())
        return keys
