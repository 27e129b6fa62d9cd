"""The rows of the benchmark: the same work, sent to Chroma and to the service."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from benchmarks.corpus import TEXT, Corpus, encoded, metadata
from benchmarks.load import Work

CHUNK = {"layer": "chunk"}
RARE = {"section_id": "rare"}
WRITE_DIMENSION = 768
COLLECTIONS = 5
"""Number of collections in the query over several collections."""


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        title: name of the work.
        figure: `rate`: responses per second, higher is better; `time`: median milliseconds, lower is better.
        goal: the target for the ratio of service to Chroma, as text.
        chroma: the requests that Chroma needs for this work, measured one after the other.
        service: the request to the service.
        together: whether the slowest of Chroma's requests counts, and not their sum.
    """

    title: str
    figure: Literal["rate", "time"]
    goal: str
    chroma: list[Work]
    service: Work
    together: bool = False


@dataclass(frozen=True)
class Targets:
    """URLs of both sides, and the folder for request bodies.

    Attributes:
        chroma: the base URL of each of Chroma's collections, by name.
        service: the service's URL.
        folder: the folder for files of request bodies.
    """

    chroma: dict[str, str]
    service: str
    folder: Path


def rows(targets: Targets, corpus: Corpus) -> list[Row]:
    """All rows.

    Args:
        targets: the URLs of both sides.
        corpus: the records that were loaded.

    Returns:
        The rows, writes last, since they change the stored data.
    """
    return [*_queries(targets, corpus), _page(targets), _several(targets, corpus), *_writes(targets)]


def _queries(targets: Targets, corpus: Corpus) -> Iterable[Row]:
    kinds: list[tuple[str, dict[str, str] | None, int, Literal["rate", "time"], str]] = [
        ("plain query, 1 client", None, 1, "time", "at most 1.0 ms more"),
        ("plain query, 32 clients", None, 32, "rate", "1.8"),
        ("query, 60 % match, 1 client", CHUNK, 1, "rate", "10"),
        ("query, 60 % match, 32 clients", CHUNK, 32, "rate", "20"),
        ("query, 0.5 % match, 1 client", RARE, 1, "time", "at most 1.1"),
    ]
    for title, where, clients, figure, goal in kinds:
        direct = [
            {
                "query_embeddings": [vector.tolist()],
                "n_results": 5,
                "include": ["documents", "metadatas", "distances"],
                **({"where": where} if where else {}),
            }
            for vector in corpus.queries
        ]
        ours = [
            {"query_embedding": vector.tolist(), "top_k": 5, **({"where": where} if where else {})}
            for vector in corpus.queries
        ]
        yield Row(
            title,
            figure,
            goal,
            [Work(f"{targets.chroma['corpus']}/query", _file(targets, direct), "POST", clients)],
            Work(f"{targets.service}/collections/corpus/query", _file(targets, ours), "POST", clients),
        )


def _page(targets: Targets) -> Row:
    get = f"{targets.chroma['corpus']}/get"
    page = [{"where": CHUNK, "limit": 100, "offset": 200, "include": ["documents", "metadatas"]}]
    return Row(
        "filtered page of 100 with exact total",
        "time",
        "at most 1.2",
        [
            Work(get, _file(targets, page), "POST", 1),
            Work(get, _file(targets, [{"where": CHUNK, "include": []}]), "POST", 1),
        ],
        Work(
            f"{targets.service}/collections/corpus/documents/filter",
            _file(targets, [{"where": CHUNK, "limit": 100, "offset": 200}]),
            "POST",
            1,
        ),
    )


def _several(targets: Targets, corpus: Corpus) -> Row:
    names = [f"part-{number}" for number in range(COLLECTIONS)]
    direct = [
        {"query_embeddings": [vector.tolist()], "n_results": 5, "include": ["documents", "metadatas", "distances"]}
        for vector in corpus.queries
    ]
    ours = [{"query_embedding": vector.tolist(), "top_k": 5, "collections": names} for vector in corpus.queries]
    bodies = _file(targets, direct)
    return Row(
        f"query over {COLLECTIONS} collections, to the slowest of them",
        "time",
        "at most 1.3",
        [Work(f"{targets.chroma[name]}/query", bodies, "POST", 1) for name in names],
        Work(f"{targets.service}/query", _file(targets, ours), "POST", 1),
        together=True,
    )


def _writes(targets: Targets) -> Iterable[Row]:
    kinds = [
        ("1 record a request, 1 client", 1, 1, False, "0.9"),
        ("1 record a request, 32 clients", 1, 32, False, "6"),
        ("100 records a request, 4 clients, JSON", 100, 4, False, "0.95"),
        ("100 records a request, 4 clients, base64", 100, 4, True, "1.0"),
    ]
    for number, (title, records, clients, base64, goal) in enumerate(kinds):
        count = 100 if records == 1 else 4
        vectors = np.random.default_rng(number).normal(size=(count, records, WRITE_DIMENSION)).astype(np.float32)
        embeddings = [[encoded(vector) if base64 else vector.tolist() for vector in request] for request in vectors]
        metadatas = [metadata(index, True, False) for index in range(records)]
        direct = [
            {
                "ids": ["@ID@"] * records,
                "embeddings": request,
                "documents": [TEXT] * records,
                "metadatas": metadatas,
            }
            for request in embeddings
        ]
        added = [
            {
                "documents": [
                    {"id": "@ID@", "text": TEXT, "embedding": embedding, "metadata": metadatas[index]}
                    for index, embedding in enumerate(request)
                ]
            }
            for request in embeddings
        ]
        name = f"writes-{number}"
        yield Row(
            title,
            "rate",
            goal,
            [Work(f"{targets.chroma[name]}/add", _file(targets, direct), "POST", clients)],
            Work(f"{targets.service}/collections/{name}/documents", _file(targets, added), "POST", clients),
        )


def _file(targets: Targets, bodies: Sequence[Mapping[str, object]]) -> Path:
    """Write bodies to a file, one per line."""
    path = targets.folder / f"bodies-{len(list(targets.folder.glob('bodies-*')))}.jsonl"
    path.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    return path
