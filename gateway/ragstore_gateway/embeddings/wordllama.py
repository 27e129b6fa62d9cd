"""A model that works offline, of the extra `models`: WordLlama's `l2_supercat_256`.

It averages vectors of tokens, so it knows words and not sentences, and English only. Its two files are read from the
`wordllama` package (MIT) by path, and verified by hash; the package itself is not imported, because it would load a
client of a model hub.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ragstore.kit.fair_queue import FairSemaphore
from ragstore_gateway.embeddings.embedder import Kind, Vectors, normalized
from ragstore_gateway.embeddings.model_files import package_folder, verified
from ragstore_gateway.embeddings.token_means import Piece, TokenMeans, batches_of_pieces

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WEIGHTS: Final = (
    "weights/l2_supercat_256.safetensors",
    "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
)
TOKENIZER: Final = (
    "tokenizers/l2_supercat_tokenizer_config.json",
    "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
)
"""The files with their SHA-256."""

NAME: Final = "builtin/wordllama"
PACKAGE: Final = "wordllama"
DIMENSIONS: Final = (256, 128, 64)
"""The dimensions that the model was trained for: a vector may be cut to the first components."""

LIMITS: Final = "English; word vectors without word order; 256 dimensions; see docs/embeddings.md for its quality"
"""The limits of the model, for the log."""


def without_cache(tokenizer: Tokenizer) -> Tokenizer:
    """Disable a tokenizer's cache, which has no public option (github.com/huggingface/tokenizers/issues/1680).

    With tokenizers 0.23.3 each thread caches 10,000 words, and each text is one word to this model, since it has no
    pre-tokenizer: texts of 120 characters took 49 MiB for each of up to 36 threads, outside of the embedding cache's
    limit. Repeated texts are found in the embedding cache. The dependency is capped below 0.24.
    """
    tokenizer.model._resize_cache(0)
    return tokenizer


class WordLlamaEmbedder:
    """Embeds texts in this process.

    Args:
        folder: the folder of the model's files; the folder of the installed package when None.

    Raises:
        ModelDamaged: the model's files cannot be used.
    """

    name = NAME

    def __init__(self, folder: Path | None = None) -> None:
        from safetensors.numpy import load
        from tokenizers import Tokenizer

        folder = folder or package_folder(PACKAGE)
        self._tokens: Vectors = load(verified(folder, WEIGHTS))["embedding.weight"].astype(np.float32)
        self._tokenizer = without_cache(Tokenizer.from_buffer(verified(folder, TOKENIZER)))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        # More threads would not embed more, and would need the memory of more batches.
        self._threads = FairSemaphore(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)

    @property
    def dimension(self) -> int:
        """The number of components of each vector."""
        return int(self._tokens.shape[1])

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        """Embed texts; see `Embedder`. Queries and documents are embedded alike."""
        means = TokenMeans(len(texts), self.dimension)
        for batch in batches_of_pieces(texts):
            # Each batch is a job of its own: callers take turns, and no further one follows if this one leaves.
            await self._threads.in_thread(self._add, batch, means)
        vectors = means.vectors()
        return normalized(vectors) if normalize else vectors

    def vectors(self, texts: list[str]) -> Vectors:
        """The vectors as the model gives them, computed in this thread."""
        means = TokenMeans(len(texts), self.dimension)
        for batch in batches_of_pieces(texts):
            self._add(batch, means)
        return means.vectors()

    def _add(self, batch: list[Piece], means: TokenMeans) -> None:
        encodings = self._tokenizer.encode_batch_fast([text for _, text in batch], add_special_tokens=False)
        for (index, _), encoding in zip(batch, encodings, strict=True):
            if encoding.ids:
                means.add(index, self._tokens[encoding.ids])


class TruncatedEmbedder:
    """An `Embedder` whose vectors are the first components of another one's, for models that were trained for it.

    Args:
        inner: the other one.
        dimension: number of components.
    """

    def __init__(self, inner: WordLlamaEmbedder, dimension: int) -> None:
        self._inner = inner
        self.name = inner.name
        self.dimension = dimension

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        """Embed texts; see `Embedder`."""
        vectors = (await self._inner.embed(texts, kind, normalize=False))[:, : self.dimension]
        return normalized(vectors) if normalize else np.ascontiguousarray(vectors)
