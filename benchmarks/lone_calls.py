"""The time that the service adds to a lone call: the same call to Chroma and to it in turn, over one connection each.

The two calls of a pair follow each other within milliseconds, so the drift of a busy machine affects both. The order
within a pair alternates.
"""

from __future__ import annotations

import http.client
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np

from benchmarks.corpus import TEXT, Corpus, metadata
from benchmarks.rows import WRITE_DIMENSION, Targets

WARM_UP_PAIRS = 5
"""Pairs that do not count. The first write to a collection sets its dimension."""

Body = Mapping[str, object]


@dataclass(frozen=True)
class LoneCall:
    """A call that is made to both sides.

    Attributes:
        title: its name.
        goal: the target for the added time, as text.
        chroma: the URL of Chroma's call.
        service: the URL of the service's call.
        bodies: the bodies of both, by pair.
    """

    title: str
    goal: str
    chroma: str
    service: str
    bodies: Sequence[tuple[Body, Body]]


@dataclass(frozen=True)
class Added:
    """The time that the service adds.

    Attributes:
        chroma_ms: median time of Chroma's call.
        service_ms: median time of the service's call.
        added_ms: median difference of a pair.
    """

    chroma_ms: float
    service_ms: float
    added_ms: float


class _Connection:
    """A connection that is kept open, to one URL."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._path = parts.path
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)

    def post(self, body: bytes) -> float:
        """Send a body, and return the seconds until the response is read."""
        started = time.perf_counter()
        self._connection.request("POST", self._path, body, {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        content = response.read()
        seconds = time.perf_counter() - started
        if response.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"{response.status}: {content[:500]!r}")
        return seconds

    def close(self) -> None:
        """Close it."""
        self._connection.close()


def added(call: LoneCall) -> Added:
    """Make the pairs of a lone call."""
    chroma, service = _Connection(call.chroma), _Connection(call.service)
    pairs = []
    for number, bodies in enumerate(call.bodies):
        direct, ours = (json.dumps(body).encode() for body in bodies)
        if number % 2:
            of_chroma = chroma.post(direct)
            of_service = service.post(ours)
        else:
            of_service = service.post(ours)
            of_chroma = chroma.post(direct)
        pairs.append((of_chroma * 1000, of_service * 1000))
    chroma.close()
    service.close()
    pairs = pairs[WARM_UP_PAIRS:]
    return Added(
        statistics.median(direct for direct, _ in pairs),
        statistics.median(ours for _, ours in pairs),
        statistics.median(ours - direct for direct, ours in pairs),
    )


def lone_calls(targets: Targets, corpus: Corpus, pairs: int) -> list[LoneCall]:
    """The lone calls: a query, and a write of one document with an id and without one.

    Args:
        targets: the URLs of both sides.
        corpus: the records that were loaded.
        pairs: number of pairs of a write; a query has four times as many.
    """
    queries = [corpus.queries[number % len(corpus.queries)].tolist() for number in range(4 * pairs)]
    wanted = {"n_results": 5, "include": ["documents", "metadatas", "distances"]}
    writes = [
        LoneCall(
            f"lone write, {title}",
            "at most 3 ms more",
            f"{targets.chroma[name]}/add",
            f"{targets.service}/collections/{name}/documents",
            _writes(pairs, seed, with_id=with_id),
        )
        for seed, (title, name, with_id) in enumerate(
            [("id of the caller", "lone-0", True), ("id of the service", "lone-1", False)]
        )
    ]
    return [
        LoneCall(
            "lone query",
            "at most 1.5 ms more",
            f"{targets.chroma['corpus']}/query",
            f"{targets.service}/collections/corpus/query",
            [({"query_embeddings": [vector], **wanted}, {"query_embedding": vector, "top_k": 5}) for vector in queries],
        ),
        *writes,
    ]


def _writes(pairs: int, seed: int, *, with_id: bool) -> list[tuple[Body, Body]]:
    """Bodies of writes. Chroma needs an id; the service generates one for a document without."""
    vectors = np.random.default_rng(seed).normal(size=(pairs, WRITE_DIMENSION)).astype(np.float32)
    fields = metadata(0, True, False)
    bodies: list[tuple[Body, Body]] = []
    for number, vector in enumerate(vectors):
        embedding = vector.tolist()
        direct: Body = {
            "ids": [f"lone-{number}"],
            "embeddings": [embedding],
            "documents": [TEXT],
            "metadatas": [fields],
        }
        document = {"text": TEXT, "embedding": embedding, "metadata": fields}
        bodies.append((direct, {"documents": [{"id": f"lone-{number}", **document} if with_id else document]}))
    return bodies
