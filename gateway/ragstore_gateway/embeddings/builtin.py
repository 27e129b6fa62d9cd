"""The model that is installed with the gateway and works offline: WordLlama's `l2_supercat_256`.

It averages vectors of tokens, so it knows words and not sentences, and English only. Its two files are read from the
`wordllama` package (MIT) by path, and verified by hash; the package itself is not imported, because it would load a
client of a model hub.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from safetensors.numpy import load
from tokenizers import Tokenizer

from ragstore.kit.fair_queue import FairSemaphore
from ragstore_gateway.embeddings.embedder import Kind, Vectors, normalized

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
DIMENSIONS: Final = (256, 128, 64)
"""The dimensions that the model was trained for: a vector may be cut to the first components."""

LIMITS: Final = "English; word vectors without word order; 256 dimensions; see docs/embeddings.md for its quality"
"""The limits of the model, for the log."""

MAX_BATCH: Final = 256
"""Maximum number of pieces that are tokenized together."""

MAX_PIECE: Final = 8_192
"""Maximum number of characters that are tokenized as one text. A longer text is cut at spaces, and its vector is the
mean of the tokens of all pieces. A token takes 1 kB until then: a text of 1 MB in one piece took 1.1 GB."""

MAX_BATCH_CHARACTERS: Final = 65_536
"""Maximum number of characters that are tokenized together."""


_Piece: TypeAlias = tuple[int, str]
"""A piece of a text, after the text's index."""


class ModelDamaged(Exception):
    """A file of the model is missing or differs from the one that this version was tested with."""


def _verified(folder: Path, file: tuple[str, str]) -> bytes:
    """Read a file of the model.

    Raises:
        ModelDamaged: it is missing, or its hash is another.
    """
    name, sha256 = file
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise ModelDamaged(f"{name} of the built-in model cannot be read: {error.strerror}") from None
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ModelDamaged(f"{name} of the built-in model differs from the tested one")
    return content


def model_folder() -> Path:
    """The folder of the model's files.

    Raises:
        ModelDamaged: the package that has them is not installed.
    """
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise ModelDamaged("The package wordllama, which has the built-in model's files, is not installed")
    return Path(spec.origin).parent


def without_cache(tokenizer: Tokenizer) -> Tokenizer:
    """Disable a tokenizer's cache, which has no public option (github.com/huggingface/tokenizers/issues/1680).

    With tokenizers 0.23.3 each thread caches 10,000 words, and each text is one word to this model, since it has no
    pre-tokenizer: texts of 120 characters took 49 MiB for each of up to 36 threads, outside of the embedding cache's
    limit. Repeated texts are found in the embedding cache. The dependency is capped below 0.24.
    """
    tokenizer.model._resize_cache(0)
    return tokenizer


class BuiltinEmbedder:
    """Embeds texts in this process.

    Args:
        folder: the folder of the model's files; that of the installed package when None.

    Raises:
        ModelDamaged: the model's files cannot be used.
    """

    name = NAME

    def __init__(self, folder: Path | None = None) -> None:
        folder = folder or model_folder()
        self._tokens: Vectors = load(_verified(folder, WEIGHTS))["embedding.weight"].astype(np.float32)
        self._tokenizer = without_cache(Tokenizer.from_buffer(_verified(folder, TOKENIZER)))
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
        means = _Means(len(texts), self.dimension)
        for batch in _batches(texts):
            # Each batch is a job of its own: callers take turns, and no further one follows if this one leaves.
            await self._threads.in_thread(self._add, batch, means)
        vectors = means.vectors()
        return normalized(vectors) if normalize else vectors

    def vectors(self, texts: list[str]) -> Vectors:
        """The vectors as the model gives them, computed in this thread."""
        means = _Means(len(texts), self.dimension)
        for batch in _batches(texts):
            self._add(batch, means)
        return means.vectors()

    def _add(self, batch: list[_Piece], means: _Means) -> None:
        encodings = self._tokenizer.encode_batch_fast([text for _, text in batch], add_special_tokens=False)
        for (index, _), encoding in zip(batch, encodings, strict=True):
            if encoding.ids:
                means.add(index, self._tokens[encoding.ids])


class _Means:
    """The means of the tokens of several texts.

    Args:
        texts: number of texts.
        dimension: number of components of a token.
    """

    def __init__(self, texts: int, dimension: int) -> None:
        self._sums = np.zeros((texts, dimension), dtype=np.float32)
        self._counts = np.zeros((texts, 1), dtype=np.float32)

    def add(self, index: int, tokens: Vectors) -> None:
        """Add tokens of a text."""
        self._sums[index] += tokens.sum(axis=0)
        self._counts[index] += len(tokens)

    def vectors(self) -> Vectors:
        """The means; zeros for a text without tokens."""
        return np.asarray(self._sums / np.maximum(self._counts, 1), dtype=np.float32)


def pieces_of(text: str) -> Iterator[str]:
    """A text in pieces of at most `MAX_PIECE` characters.

    They end at spaces where possible. The space is left out: the tokenizer adds one before each text, so the tokens are
    those of the whole text.
    """
    start = 0
    while len(text) - start > MAX_PIECE:
        space = text.rfind(" ", start + 1, start + MAX_PIECE)
        end = space if space > 0 else start + MAX_PIECE
        yield text[start:end]
        start = end + (space > 0)
    yield text[start:]


def _batches(texts: Sequence[str]) -> Iterator[list[_Piece]]:
    """The pieces of texts, in batches."""
    batch: list[_Piece] = []
    characters = 0
    for index, text in enumerate(texts):
        for piece in pieces_of(text):
            if batch and (len(batch) >= MAX_BATCH or characters + len(piece) > MAX_BATCH_CHARACTERS):
                yield batch
                batch, characters = [], 0
            batch.append((index, piece))
            characters += len(piece)
    if batch:
        yield batch


class TruncatedEmbedder:
    """An `Embedder` whose vectors are the first components of another one's, for models that were trained for it.

    Args:
        inner: the other one.
        dimension: number of components.
    """

    def __init__(self, inner: BuiltinEmbedder, dimension: int) -> None:
        self._inner = inner
        self.name = inner.name
        self.dimension = dimension

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        """Embed texts; see `Embedder`."""
        vectors = (await self._inner.embed(texts, kind, normalize=False))[:, : self.dimension]
        return normalized(vectors) if normalize else np.ascontiguousarray(vectors)
