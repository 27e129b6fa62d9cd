"""`Embedder`: from texts to vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]
"""One row per text."""

Kind: TypeAlias = Literal["query", "document"]
"""What a text is. Some models embed questions and passages differently."""


class Embedder(Protocol):
    """Embeds texts with one model."""

    @property
    def name(self) -> str:
        """The model, with its provider: `builtin/wordllama`."""

    async def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """Embed texts.

        Args:
            texts: the texts; none is empty.
            kind: what they are.

        Returns:
            Their vectors in the same order, of length 1.

        Raises:
            ServiceError: the provider failed.
        """
