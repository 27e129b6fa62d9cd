"""Loads the corpus into Chroma directly and into the service."""

from __future__ import annotations

from collections.abc import Iterator

import httpx

from benchmarks.corpus import TEXT, Corpus, encoded
from benchmarks.rows import PARTS

BATCH = 1000
WRITES = 4
"""Collections for the rows that write."""

_COLLECTIONS = "/api/v2/tenants/default_tenant/databases/default_database/collections"


def slices(corpus: Corpus) -> Iterator[tuple[str, range]]:
    """The collections to load, with the records of each."""
    count = len(corpus.vectors)
    yield "corpus", range(count)
    for part in range(PARTS):
        yield f"part-{part}", range(part * count // PARTS, (part + 1) * count // PARTS)
    for number in range(WRITES):
        yield f"writes-{number}", range(0)


def load_chroma(url: str, corpus: Corpus) -> dict[str, str]:
    """Load Chroma directly.

    Args:
        url: Chroma's address.
        corpus: what to load.

    Returns:
        The address of each collection, by its name.
    """
    addresses = {}
    with httpx.Client(base_url=url, timeout=120) as client:
        for name, records in slices(corpus):
            created = client.post(
                _COLLECTIONS, json={"name": f"direct-{name}", "configuration": {"hnsw": {"space": "cosine"}}}
            )
            path = f"{_COLLECTIONS}/{created.raise_for_status().json()['id']}"
            for batch in _batches(records):
                body = {
                    "ids": [f"record-{place}" for place in batch],
                    "embeddings": [encoded(corpus.vectors[place]) for place in batch],
                    "documents": [TEXT for _ in batch],
                    "metadatas": [corpus.metadatas[place] for place in batch],
                }
                client.post(f"{path}/add", json=body).raise_for_status()
            addresses[name] = url + path
    return addresses


def load_service(url: str, corpus: Corpus) -> None:
    """Load the service.

    Args:
        url: its address.
        corpus: what to load.
    """
    with httpx.Client(base_url=url, timeout=120) as client:
        for name, records in slices(corpus):
            client.post("/collections", json={"name": name}).raise_for_status()
            for batch in _batches(records):
                documents = [
                    {
                        "id": f"record-{place}",
                        "text": TEXT,
                        "embedding": encoded(corpus.vectors[place]),
                        "metadata": corpus.metadatas[place],
                    }
                    for place in batch
                ]
                client.post(f"/collections/{name}/documents", json={"documents": documents}).raise_for_status()


def _batches(records: range) -> Iterator[range]:
    for start in range(records.start, records.stop, BATCH):
        yield range(start, min(start + BATCH, records.stop))
