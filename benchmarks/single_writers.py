"""Single writers, compared with Chroma's own rate at the batch size that the service reaches.

The service sends concurrent writes to Chroma in batches. The rate of one client of Chroma with batches of that size is
the limit that the service would reach if its own work took no time. Each measurement has new collections, since the
cost of a write depends on the number of writes that Chroma has not saved.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np

from benchmarks.corpus import TEXT, encoded, metadata
from benchmarks.fill import CHROMA_COLLECTIONS
from benchmarks.load import Work, load
from benchmarks.rows import WRITE_DIMENSION

WRITERS = 32
TITLE = {
    True: "32 single writers, to Chroma's rate at the same batch size",
    False: "32 single writers, ids of the service, likewise",
}
"""Titles of the rows, by whether the documents have ids."""

GOAL = "0.9"


@dataclass(frozen=True)
class BatchedRate:
    """The result of one round.

    Attributes:
        chroma: documents per second, sent to Chroma by one client in batches of the service's size.
        service: documents per second, sent to the service by single writers.
        batch: mean number of documents in a batch of the service.
        failures: number of failures of both sides.
    """

    chroma: float
    service: float
    batch: float
    failures: int


def single_writers(
    chroma: str, service: str, folder: Path, name: str, seconds: float, *, with_ids: bool = True
) -> BatchedRate:
    """Measure one round.

    Args:
        chroma: Chroma's URL.
        service: the service's URL.
        folder: the folder for request bodies.
        name: name of the new collection of the service; Chroma's has a suffix.
        seconds: time for each side.
        with_ids: whether the documents have ids; if not, the service generates them.
    """
    with httpx.Client(timeout=60) as client:
        client.post(f"{service}/collections", json={"name": name}).raise_for_status()
        body = {"name": f"{name}-direct", "configuration": {"hnsw": {"space": "cosine"}}}
        created = client.post(chroma + CHROMA_COLLECTIONS, json=body).raise_for_status().json()
        documents = folder / "single.jsonl"
        documents.write_text("".join(_service_body(number, with_id=with_ids) for number in range(100)))
        before = _batches(client, service)
        ours = load(Work(f"{service}/collections/{name}/documents", documents, "POST", WRITERS), seconds)
        after = _batches(client, service)
        batch = (after[0] - before[0]) / (after[1] - before[1])
        records = folder / "batches.jsonl"
        records.write_text("".join(_chroma_body(number, round(batch)) for number in range(20)))
        url = f"{chroma}{CHROMA_COLLECTIONS}/{created['id']}/add"
        direct = load(Work(url, records, "POST", 1), seconds)
    return BatchedRate(direct.rate * round(batch), ours.rate, batch, direct.failures + ours.failures)


def _batches(client: httpx.Client, service: str) -> tuple[float, float]:
    """The documents of all batches so far, and the number of batches."""
    values = dict(line.rsplit(" ", 1) for line in client.get(f"{service}/metrics").text.splitlines() if line[0] != "#")
    name = "ragstore_coalesced_documents"
    return float(values[f"{name}_sum"]), float(values[f"{name}_count"])


def _service_body(number: int, *, with_id: bool) -> str:
    vector = _vectors(number, 1)[0].tolist()
    document = {"text": TEXT, "embedding": vector, "metadata": metadata(number, True, False)}
    return json.dumps({"documents": [{"id": "@ID@", **document} if with_id else document]}) + "\n"


def _chroma_body(number: int, count: int) -> str:
    """A batch in the form that costs Chroma least: embeddings in base64."""
    body = {
        "ids": ["@ID@"] * count,
        "embeddings": [encoded(vector) for vector in _vectors(number, count)],
        "documents": [TEXT] * count,
        "metadatas": [metadata(index, True, False) for index in range(count)],
    }
    return json.dumps(body) + "\n"


def _vectors(seed: int, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(seed).normal(size=(count, WRITE_DIMENSION)).astype(np.float32)
