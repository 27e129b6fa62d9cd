"""Load the corpus into Chroma directly, and into the service."""

from __future__ import annotations

from collections.abc import Iterator

import httpx

from benchmarks.corpus import TEXT, Corpus, encoded
from benchmarks.rows import COLLECTIONS

BATCH = 1000
WRITES = 4
"""Number of collections for the rows that write."""

LONE_WRITES = 2
"""Number of collections for lone writes."""

CHROMA_COLLECTIONS = "/api/v2/tenants/default_tenant/databases/default_database/collections"


def slices(corpus: Corpus) -> Iterator[tuple[str, range]]:
    """The collections to load, each with the indexes of its records."""
    count = len(corpus.vectors)
    yield "corpus", range(count)
    for number in range(COLLECTIONS):
        yield f"part-{number}", range(number * count // COLLECTIONS, (number + 1) * count // COLLECTIONS)
    for number in range(WRITES):
        yield f"writes-{number}", range(0)
    for number in range(LONE_WRITES):
        yield f"lone-{number}", range(0)


def load_chroma(url: str, corpus: Corpus) -> dict[str, str]:
    """Load Chroma directly.

    Args:
        url: Chroma's URL.
        corpus: the records to load.

    Returns:
        The URL of each collection, by name.
    """
    addresses = {}
    with httpx.Client(base_url=url, timeout=120) as client:
        for name, records in slices(corpus):
            created = client.post(
                CHROMA_COLLECTIONS, json={"name": f"direct-{name}", "configuration": {"hnsw": {"space": "cosine"}}}
            )
            path = f"{CHROMA_COLLECTIONS}/{created.raise_for_status().json()['id']}"
            for batch in _batches(records):
                body = {
                    "ids": [f"record-{index}" for index in batch],
                    "embeddings": [encoded(corpus.vectors[index]) for index in batch],
                    "documents": [TEXT for _ in batch],
                    "metadatas": [corpus.metadatas[index] for index in batch],
                }
                client.post(f"{path}/add", json=body).raise_for_status()
            addresses[name] = url + path
    return addresses


def load_service(url: str, corpus: Corpus) -> None:
    """Load the service.

    Args:
        url: the service's URL.
        corpus: the records to load.
    """
    with httpx.Client(base_url=url, timeout=120) as client:
        for name, records in slices(corpus):
            client.post("/collections", json={"name": name}).raise_for_status()
            for batch in _batches(records):
                documents = [
                    {
                        "id": f"record-{index}",
                        "text": TEXT,
                        "embedding": encoded(corpus.vectors[index]),
                        "metadata": corpus.metadatas[index],
                    }
                    for index in batch
                ]
                client.post(f"/collections/{name}/documents", json={"documents": documents}).raise_for_status()


def _batches(records: range) -> Iterator[range]:
    for start in range(records.start, records.stop, BATCH):
        yield range(start, min(start + BATCH, records.stop))
