"""The bodies of responses with embeddings, made in steps: 2,048 vectors of 3,072 numbers took 0.5 s in one."""

from __future__ import annotations

import base64
from collections.abc import Generator, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from ragstore_client.context import estimate_tokens
from ragstore_gateway.embeddings.embedder import Vectors
from ragstore_gateway.embeddings.schemas import EmbeddingsData, EmbeddingsUsage

STEP_NUMBERS: Final = 16_384
"""Number of components that are encoded in one step: about 2 ms."""


def embed_body(vectors: Vectors, *, normalize: bool) -> Generator[None, None, bytes]:
    """The body of `POST /embed`, an `EmbedResponse`.

    Args:
        normalize: whether they have length 1.
    """
    pieces: list[bytes] = [b'{"vectors":[']
    for _, part in _parts(vectors):
        pieces += (msgspec.json.encode(part.tolist())[1:-1], b",")
        yield
    return _joined(pieces, msgspec.json.encode({"normalize": normalize, "dim": vectors.shape[1]}))


def embeddings_body(
    vectors: Vectors, texts: Sequence[str], *, model: str, encoding_format: str
) -> Generator[None, None, bytes]:
    """The body of `POST /v1/embeddings`, an `EmbeddingsResponse`.

    Args:
        texts: their texts, for the number of tokens.
        model: the model, as the request names it.
        encoding_format: `float` or `base64`.
    """
    tokens = 0
    for text in texts:
        tokens += estimate_tokens(text)
        yield
    pieces: list[bytes] = [b'{"object":"list","data":[']
    for first, part in _parts(vectors):
        for index, embedding in enumerate(_encoded(part, encoding_format), first):
            pieces += (msgspec.json.encode(EmbeddingsData("embedding", index, embedding)), b",")
        yield
    return _joined(pieces, msgspec.json.encode({"model": model, "usage": EmbeddingsUsage(tokens, tokens)}))


def _joined(pieces: list[bytes], end: bytes) -> bytes:
    """The body: the pieces of a list, each followed by a comma, and then the members of an object."""
    pieces[-1] = b"]," + end[1:]
    # Joined once: each concatenation would copy all of it.
    return b"".join(pieces)


def _parts(vectors: Vectors) -> Iterator[tuple[int, Vectors]]:
    """The rows in parts, each with the index of its first one."""
    size = max(1, STEP_NUMBERS // vectors.shape[1])
    for start in range(0, len(vectors), size):
        yield start, vectors[start : start + size]


def _encoded(vectors: Vectors, encoding_format: str) -> Iterator[list[float] | str]:
    if encoding_format == "base64":
        for row in vectors.astype(np.dtype("<f4"), copy=False):
            yield base64.b64encode(row.tobytes()).decode()
    else:
        yield from vectors.tolist()
