"""Recall of Chroma and of the service: the share of the true nearest neighbours in the results, by filter."""

from __future__ import annotations

import httpx
import numpy as np

from benchmarks.corpus import Corpus
from benchmarks.rows import CHUNK, RARE

TOP_K = 5
FIFTH = {"page_number": {"$lt": 6}}
"""Selects a fifth of the records."""

FILTERS: list[tuple[str, dict[str, object] | None]] = [
    ("no filter", None),
    ("60 % match", dict(CHUNK)),
    ("20 % match", dict(FIFTH)),
    ("0.5 % match", dict(RARE)),
]


def recall_table(chroma: str, service: str, corpus: Corpus) -> str:
    """Send every query to both.

    Args:
        chroma: URL of Chroma's collection.
        service: the service's URL.
        corpus: the records that were loaded.

    Returns:
        A table of the recall of each side.
    """
    lines = ["\n| recall@5 | Chroma | service |", "| --- | --- | --- |"]
    with httpx.Client(timeout=60) as client:
        for title, where in FILTERS:
            truth = _true_neighbours(corpus, where)
            direct = [_query_chroma(client, chroma, vector.tolist(), where) for vector in corpus.queries]
            ours = [_query_service(client, service, vector.tolist(), where) for vector in corpus.queries]
            lines.append(f"| {title} | {_recall(direct, truth):.4f} | {_recall(ours, truth):.4f} |")
    return "\n".join(lines)


def _true_neighbours(corpus: Corpus, where: dict[str, object] | None) -> list[set[str]]:
    """The ids of the nearest neighbours of each query, by comparison with every record that the filter selects."""
    chosen = np.array([index for index, metadata in enumerate(corpus.metadatas) if _selects(where, metadata)])
    scores = corpus.queries @ corpus.vectors[chosen].T
    nearest = np.argsort(-scores, axis=1)[:, :TOP_K]
    return [{f"record-{index}" for index in chosen[row]} for row in nearest]


def _selects(where: dict[str, object] | None, metadata: dict[str, str | int]) -> bool:
    if where is None:
        return True
    if where == FIFTH:
        return int(metadata["page_number"]) < 6
    return all(metadata[key] == value for key, value in where.items())


def _recall(found: list[list[str]], truth: list[set[str]]) -> float:
    shares = [len(true & set(ids)) / len(true) for ids, true in zip(found, truth, strict=True)]
    return float(np.mean(shares))


def _query_chroma(client: httpx.Client, url: str, vector: list[float], where: dict[str, object] | None) -> list[str]:
    body = {"query_embeddings": [vector], "n_results": TOP_K, "include": [], **({"where": where} if where else {})}
    ids: list[str] = client.post(f"{url}/query", json=body).raise_for_status().json()["ids"][0]
    return ids


def _query_service(client: httpx.Client, url: str, vector: list[float], where: dict[str, object] | None) -> list[str]:
    body = {"query_embedding": vector, "top_k": TOP_K, **({"where": where} if where else {})}
    response = client.post(f"{url}/collections/corpus/query", json=body).raise_for_status().json()
    return [match["id"] for match in response["results"]]
