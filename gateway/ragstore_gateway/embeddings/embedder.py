"""`Embedder`: from texts to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""One row per text."""

Kind: TypeAlias = Literal["query", "document"]
"""The role of a text. Some models embed queries and documents differently."""


class Embedder(Protocol):
    """Embeds texts with one model."""

    @property
    def name(self) -> str:
        """The model, with its provider: `builtin/wordllama`, `openai/text-embedding-3-small`."""

    @property
    def dimension(self) -> int | None:
        """The number of components of each vector; None until the provider has returned one."""

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        """Embed texts.

        Args:
            texts: the texts; none is empty.
            kind: what they are.
            normalize: whether to scale the vectors to length 1; otherwise they are as the model returns them.

        Returns:
            Their vectors in the same order.

        Raises:
            ServiceError: the provider failed.
        """


MIN_LENGTH: Final = 1e-15
"""Length of a vector up to which its square is not exact in float32."""


def normalized(vectors: Vectors) -> Vectors:
    """Vectors scaled to length 1. A vector of zeros stays as it is."""
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(lengths) & (lengths > MIN_LENGTH)).all():
        # The squares of very large or small components are not float32, which made zeros of such a vector.
        exact = vectors.astype(np.float64)
        lengths = np.linalg.norm(exact, axis=1, keepdims=True)
        return np.asarray(exact / np.where(lengths == 0, 1, lengths), dtype=np.float32)
    return np.asarray(vectors / lengths, dtype=np.float32)
