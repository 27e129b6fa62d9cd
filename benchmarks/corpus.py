"""The records of the benchmark, with vectors that have near neighbours, as real embeddings do."""

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
    """Records and query vectors.

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
        path: file of numpy arrays `vectors` and `queries`; None generates 18,000 clustered vectors of 384 dimensions.
        seed: the seed of the random generator; the same seed gives the same corpus.

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
    metadatas = [metadata(index, layer < CHUNK_SHARE, rare < RARE_SHARE) for index, (layer, rare) in enumerate(draws)]
    return Corpus(vectors, queries, metadatas)


def clustered(rng: np.random.Generator, count: int, dimension: int) -> Vectors:
    """Normalised vectors around common centres. Random vectors without centres have no near neighbours to find.

    Args:
        rng: draws the vectors; the centres are the same for every call.
        count: number of vectors.
        dimension: number of components of each vector.

    Returns:
        Matrix of shape (count, dimension).
    """
    centres = np.random.default_rng(7).normal(size=(300, dimension))
    drawn = centres[rng.integers(len(centres), size=count)] + rng.normal(size=(count, dimension)) * 0.6
    normalised: Vectors = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return normalised


def metadata(index: int, chunk: bool, rare: bool) -> dict[str, str | int]:
    """Metadata with the fields that the platform's ingestion writes."""
    return {
        "document_id": f"document-{index // 40}",
        "repository_id": "repository-1",
        "organization_id": "organization-1",
        "layer": "chunk" if chunk else "section",
        "section_id": "rare" if rare else f"section-{index // 12}",
        "char_start": index * 600,
        "char_end": index * 600 + 600,
        "token_count": 150,
        "page_number": index % 30,
    }


def encoded(vector: Vectors) -> str:
    """An embedding as base64 of little-endian float32."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
