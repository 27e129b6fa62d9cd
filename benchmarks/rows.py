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
PARTS = 5
"""Collections of the query over several."""


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        title: what is done.
        figure: `rate`: answers a second, more is better; `time`: median milliseconds, less is better.
        goal: what the ratio, service to Chroma, should be, for a person to read.
        chroma: works of which Chroma needs all, one after the other, or the slowest of which counts.
        service: the work for the service.
        together: whether the slowest of Chroma's works counts, and not their sum.
    """

    title: str
    figure: Literal["rate", "time"]
    goal: str
    chroma: list[Work]
    service: Work
    together: bool = False


@dataclass(frozen=True)
class Places:
    """Where things are.

    Attributes:
        chroma: Chroma's collections, by name: the address below which their operations stand.
        service: the service's address.
        folder: where bodies are written.
    """

    chroma: dict[str, str]
    service: str
    folder: Path


def rows(places: Places, corpus: Corpus) -> list[Row]:
    """All rows.

    Args:
        places: where things are.
        corpus: what was loaded.

    Returns:
        The rows, writes last, since they add to what is stored.
    """
    return [*_queries(places, corpus), _page(places), _several(places, corpus), *_writes(places)]


def _queries(places: Places, corpus: Corpus) -> Iterable[Row]:
    kinds: list[tuple[str, dict[str, str] | None, int, Literal["rate", "time"], str]] = [
        ("plain query, 1 caller", None, 1, "time", "at most 1.0 ms more"),
        ("plain query, 32 callers", None, 32, "rate", "1.8"),
        ("query, 60 % match, 1 caller", CHUNK, 1, "rate", "10"),
        ("query, 60 % match, 32 callers", CHUNK, 32, "rate", "20"),
        ("query, 0.5 % match, 1 caller", RARE, 1, "time", "at most 1.1"),
    ]
    for title, where, callers, figure, goal in kinds:
        direct = [
            {
                "query_embeddings": [vector.tolist()],
                "n_results": 5,
                "include": ["documents", "metadatas", "distances"],
                **({"where": where} if where else {}),
            }
            for vector in corpus.queries
        ]
        asked = [
            {"query_embedding": vector.tolist(), "top_k": 5, **({"where": where} if where else {})}
            for vector in corpus.queries
        ]
        yield Row(
            title,
            figure,
            goal,
            [Work(f"{places.chroma['corpus']}/query", _file(places, direct), "POST", callers)],
            Work(f"{places.service}/collections/corpus/query", _file(places, asked), "POST", callers),
        )


def _page(places: Places) -> Row:
    get = f"{places.chroma['corpus']}/get"
    page = [{"where": CHUNK, "limit": 100, "offset": 200, "include": ["documents", "metadatas"]}]
    return Row(
        "filtered page of 100 with exact total",
        "time",
        "at most 1.2",
        [
            Work(get, _file(places, page), "POST", 1),
            Work(get, _file(places, [{"where": CHUNK, "include": []}]), "POST", 1),
        ],
        Work(
            f"{places.service}/collections/corpus/documents/filter",
            _file(places, [{"where": CHUNK, "limit": 100, "offset": 200}]),
            "POST",
            1,
        ),
    )


def _several(places: Places, corpus: Corpus) -> Row:
    names = [f"part-{part}" for part in range(PARTS)]
    direct = [
        {"query_embeddings": [vector.tolist()], "n_results": 5, "include": ["documents", "metadatas", "distances"]}
        for vector in corpus.queries
    ]
    asked = [{"query_embedding": vector.tolist(), "top_k": 5, "collections": names} for vector in corpus.queries]
    bodies = _file(places, direct)
    return Row(
        f"query over {PARTS} collections, to the slowest of them",
        "time",
        "at most 1.3",
        [Work(f"{places.chroma[name]}/query", bodies, "POST", 1) for name in names],
        Work(f"{places.service}/query", _file(places, asked), "POST", 1),
        together=True,
    )


def _writes(places: Places) -> Iterable[Row]:
    kinds = [
        ("1 record a request, 1 caller", 1, 1, False, "0.9"),
        ("1 record a request, 32 callers", 1, 32, False, "6"),
        ("100 records a request, 4 callers, JSON", 100, 4, False, "0.95"),
        ("100 records a request, 4 callers, base64", 100, 4, True, "1.0"),
    ]
    for number, (title, records, callers, base64, goal) in enumerate(kinds):
        count = 100 if records == 1 else 4
        vectors = np.random.default_rng(number).normal(size=(count, records, WRITE_DIMENSION)).astype(np.float32)
        embeddings = [[encoded(vector) if base64 else vector.tolist() for vector in request] for request in vectors]
        metadatas = [metadata(place, True, False) for place in range(records)]
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
                    {"id": "@ID@", "text": TEXT, "embedding": embedding, "metadata": metadatas[place]}
                    for place, embedding in enumerate(request)
                ]
            }
            for request in embeddings
        ]
        name = f"writes-{number}"
        yield Row(
            title,
            "rate",
            goal,
            [Work(f"{places.chroma[name]}/add", _file(places, direct), "POST", callers)],
            Work(f"{places.service}/collections/{name}/documents", _file(places, added), "POST", callers),
        )


def _file(places: Places, bodies: Sequence[Mapping[str, object]]) -> Path:
    """Write bodies, one a line."""
    path = places.folder / f"bodies-{len(list(places.folder.glob('bodies-*')))}.jsonl"
    path.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    return path
