"""What the benchmark loads: records with vectors that behave like users' vectors do."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

TEXT = "The boiler is serviced every October, and the caretaker notes the pressure, the burner hours and the date. " * 6
CHUNK_SHARE = 0.6
"""Share of the records that `where={"layer": "chunk"}` selects."""

RARE_SHARE = 0.005
"""Share of the records that `where={"section_id": "rare"}` selects."""

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Corpus:
    """Records and questions.

    Attributes:
        vectors: matrix of shape (n, dimension), float32.
        queries: matrix of shape (m, dimension), float32.
        metadatas: n metadatas of nine fields.
    """

    vectors: Vectors
    queries: Vectors
    metadatas: list[dict[str, str | int]]


def load_corpus(path: Path | None, seed: int = 1) -> Corpus:
    """Make the corpus.

    Args:
        path: file of numpy arrays `vectors` and `queries`; None makes clustered vectors, 18,000 of 384 dimensions.
        seed: makes it the same every time.

    Returns:
        The corpus.
    """
    rng = np.random.default_rng(seed)
    if path is None:
        vectors, queries = clustered(rng, 18_000, 384), clustered(rng, 400, 384)
    else:
        with np.load(path) as arrays:
            vectors, queries = (np.ascontiguousarray(arrays[name], dtype=np.float32) for name in ("vectors", "queries"))
    draws = rng.random((len(vectors), 2))
    metadatas = [metadata(place, layer < CHUNK_SHARE, rare < RARE_SHARE) for place, (layer, rare) in enumerate(draws)]
    return Corpus(vectors, queries, metadatas)


def clustered(rng: np.random.Generator, count: int, dimension: int) -> Vectors:
    """Normalised vectors around common centres. Random ones without centres have no near neighbours to find.

    Args:
        rng: the source of chance; the centres are the same for every call.
        count: how many.
        dimension: numbers in each.

    Returns:
        Matrix of shape (count, dimension).
    """
    centres = np.random.default_rng(7).normal(size=(300, dimension))
    drawn = centres[rng.integers(len(centres), size=count)] + rng.normal(size=(count, dimension)) * 0.6
    normalised: Vectors = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return normalised


def metadata(place: int, chunk: bool, rare: bool) -> dict[str, str | int]:
    """Metadata as the platform's ingestion writes it."""
    return {
        "document_id": f"document-{place // 40}",
        "repository_id": "repository-1",
        "organization_id": "organization-1",
        "layer": "chunk" if chunk else "section",
        "section_id": "rare" if rare else f"section-{place // 12}",
        "char_start": place * 600,
        "char_end": place * 600 + 600,
        "token_count": 150,
        "page_number": place % 30,
    }


def encoded(vector: Vectors) -> str:
    """An embedding as base64 of little-endian float32."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
