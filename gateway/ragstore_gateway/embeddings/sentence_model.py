"""`SentenceModel`: a transformer that embeds sentences in the gateway's process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import structlog

from ragstore.kit.fair_queue import FairSemaphore
from ragstore_gateway.embeddings.embedder import Kind, Vectors, normalized
from ragstore_gateway.embeddings.onnx_session import OnnxSession
from ragstore_gateway.embeddings.prefixes import Prefixes
from ragstore_gateway.embeddings.token_means import Piece, TokenMeans, batches_of_pieces
from ragstore_gateway.errors import EmbeddingFailed

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

Pooling: TypeAlias = Literal["mean", "cls", "sentence"]
"""How a vector is made of a window: the mean of its tokens, its first token, or an output of its own."""

MAX_GROUP_TOKENS: Final = 256
"""Maximum number of tokens that are computed together, with padding, unless one window has more. 1,024 are as fast, and
take 110 MiB more with all-MiniLM-L6-v2. A question waits for one group at most, about 40 ms."""

_Window: TypeAlias = "tuple[int, Encoding]"
"""The tokens of a window, after the text's index."""

_log = structlog.get_logger(__name__)


class SentenceModel:
    """Embeds texts in this process.

    Args:
        name: the name of the model, with its provider.
        session: the model.
        output: the output of the session that is read.
        max_tokens: maximum number of tokens that the model reads together. A longer text is read in windows, and its
            vector is the mean of all of them.
        prefixes: precede queries and documents.
    """

    def __init__(
        self,
        name: str,
        session: OnnxSession,
        tokenizer: Tokenizer,
        *,
        output: str = "last_hidden_state",
        max_tokens: int,
        pooling: Pooling = "mean",
        prefixes: Prefixes = Prefixes(),
    ) -> None:
        self.name = name
        self._session = session
        self._output = output
        self._pooling = pooling
        self._prefixes = prefixes
        self._tokenizer = tokenizer
        self._tokenizer.enable_truncation(max_tokens)
        self._tokenizer.no_padding()
        # Each computation uses one core, so that callers take turns after each.
        self._threads = FairSemaphore(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
        self.dimension = int(session.run(output, [tokenizer.encode("dimension")]).shape[-1])

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        """Embed texts; see `Embedder`."""
        means = TokenMeans(len(texts), self.dimension)
        for batch in batches_of_pieces(self._prefixes.applied(list(texts), kind)):
            # Each group is a job of its own: callers take turns, and no further one follows if this one leaves.
            for group in groups_of(await self._threads.in_thread(self._windows, batch)):
                await self._threads.in_thread(self._add, group, means)
        vectors = means.vectors()
        return normalized(vectors) if normalize else vectors

    def _windows(self, batch: list[Piece]) -> list[_Window]:
        encodings = self._tokenizer.encode_batch_fast([text for _, text in batch])
        return [
            (index, window)
            for (index, _), encoding in zip(batch, encodings, strict=True)
            for window in (encoding, *encoding.overflowing)
        ]

    def _add(self, group: list[_Window], means: TokenMeans) -> None:
        try:
            states = self._session.run(self._output, [window for _, window in group])
        except Exception as error:  # noqa: BLE001  # memory, an operator, a shape: it raises what its libraries raise
            # The exception's own text may have values.
            _log.warning("model failed", model=self.name, error=type(error).__name__)
            raise EmbeddingFailed(f"{self.name} failed: {type(error).__name__}") from None
        if not np.isfinite(states).all():
            raise EmbeddingFailed(f"{self.name} returned no usable vectors")
        for row, (index, window) in enumerate(group):
            means.add(index, self._pooled(states[row], len(window.ids)))

    def _pooled(self, state: Vectors, length: int) -> Vectors:
        """The rows whose mean is the vector of a window."""
        if self._pooling == "mean":
            return state[:length]
        return state[:1] if self._pooling == "cls" else state[np.newaxis]


def groups_of(windows: list[_Window]) -> Iterator[list[_Window]]:
    """Windows of similar lengths, so that little is padding, with at most `MAX_GROUP_TOKENS`."""
    group: list[_Window] = []
    for window in sorted(windows, key=lambda each: len(each[1].ids)):
        if group and (len(group) + 1) * len(window[1].ids) > MAX_GROUP_TOKENS:
            yield group
            group = []
        group.append(window)
    if group:
        yield group
