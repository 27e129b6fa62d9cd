"""The model that is installed with the gateway and works offline: WordLlama's `l2_supercat_256`.

It averages vectors of tokens, so it knows words and not sentences, and English only. Its two files are read from the
`wordllama` package (MIT) by path, and verified by hash; the package itself is not imported, because it would load a
client of a model hub.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
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


class BuiltinEmbedder:
    """Embeds texts in this process.

    Raises:
        ModelDamaged: the model's files cannot be used.
    """

    name = "builtin/wordllama"

    def __init__(self) -> None:
        spec = find_spec("wordllama")
        if spec is None or spec.origin is None:
            raise ModelDamaged("The package wordllama, which has the built-in model's files, is not installed")
        folder = Path(spec.origin).parent
        self._tokens: Vectors = load(_verified(folder, WEIGHTS))["embedding.weight"].astype(np.float32)
        self._tokenizer = Tokenizer.from_buffer(_verified(folder, TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    @property
    def dimension(self) -> int:
        """The number of components of each vector."""
        return int(self._tokens.shape[1])

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        """Embed texts; see `Embedder`. Queries and documents are embedded alike."""
        vectors = await asyncio.to_thread(self._embed, list(texts))
        return normalized(vectors) if normalize else vectors

    def _embed(self, texts: list[str]) -> Vectors:
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return np.stack([self._tokens[encoding.ids].mean(axis=0) for encoding in encodings])
