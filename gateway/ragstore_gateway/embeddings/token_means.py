"""Texts in pieces, and the means of the vectors of their tokens, for models in the gateway's process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np

from ragstore_gateway.embeddings.embedder import Vectors

MAX_BATCH: Final = 256
"""Maximum number of pieces that are tokenized together."""

MAX_PIECE: Final = 8_192
"""Maximum number of characters that are tokenized as one text. A longer text is cut at spaces, and its vector is the
mean of the tokens of all pieces. A token takes 1 kB until then: a text of 1 MB in one piece took 1.1 GB."""

MAX_BATCH_CHARACTERS: Final = 65_536
"""Maximum number of characters that are tokenized together."""


Piece: TypeAlias = tuple[int, str]
"""A piece of a text, after the text's index."""


class TokenMeans:
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

    They end at spaces where possible. The space is left out: the tokenizer adds one before each text, so the tokens
    equal the tokens of the whole text.
    """
    start = 0
    while len(text) - start > MAX_PIECE:
        space = text.rfind(" ", start + 1, start + MAX_PIECE)
        end = space if space > 0 else start + MAX_PIECE
        yield text[start:end]
        start = end + (space > 0)
    yield text[start:]


def batches_of_pieces(texts: Sequence[str]) -> Iterator[list[Piece]]:
    """The pieces of texts, in batches."""
    batch: list[Piece] = []
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
