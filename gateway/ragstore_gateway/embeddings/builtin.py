"""The model that is installed with the gateway and works offline: WordLlama's `l2_supercat_256`.

It averages vectors of tokens, so it knows words and not sentences, and English only. Its two files are read from the
`wordllama` package (MIT) by path, and verified by hash; the package itself is not imported, because it would load a
client of a model hub.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
from safetensors.numpy import load
from tokenizers import Tokenizer

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

    @property
    def dimension(self) -> int:
        """The number of components of each vector."""
        return int(self._tokens.shape[1])

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        """Embed texts; see `Embedder`. Queries and documents are embedded alike."""
        left = threading.Event()
        try:
            vectors = await asyncio.to_thread(self.vectors, list(texts), left)
        finally:
            # A thread cannot be cancelled. It ends after its batch if the caller is gone.
            left.set()
        return normalized(vectors) if normalize else vectors

    def vectors(self, texts: list[str], left: threading.Event | None = None) -> Vectors:
        """The vectors as the model gives them, computed in this thread.

        Args:
            texts: the texts.
            left: set when nobody waits for the vectors.
        """
        sums = np.zeros((len(texts), self.dimension), dtype=np.float32)
        counts = np.zeros((len(texts), 1), dtype=np.float32)
        pieces = ((index, piece) for index, text in enumerate(texts) for piece in pieces_of(text))
        for batch in _batches(pieces):
            if left is not None and left.is_set():
                break
            encodings = self._tokenizer.encode_batch_fast([piece for _, piece in batch], add_special_tokens=False)
            for (index, _), encoding in zip(batch, encodings, strict=True):
                if encoding.ids:
                    sums[index] += self._tokens[encoding.ids].sum(axis=0)
                    counts[index] += len(encoding.ids)
        return np.asarray(sums / np.maximum(counts, 1), dtype=np.float32)


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


def _batches(pieces: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    batch: list[tuple[int, str]] = []
    characters = 0
    for index, piece in pieces:
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
