"""Any model of sentence-transformers in this process. It needs the extra `sentence-transformers`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import structlog

from ragstore.kit.extras import MissingExtra, require_extra
from ragstore.kit.fair_queue import FairSemaphore
from ragstore_gateway.embeddings.batches import batches
from ragstore_gateway.embeddings.embedder import Kind, Vectors, normalized
from ragstore_gateway.embeddings.prefixes import Prefixes
from ragstore_gateway.errors import EmbeddingFailed, ModelUnavailable

MAX_BATCH: Final = 64
"""Maximum number of texts that are embedded together."""

MAX_BATCH_BYTES: Final = 262_144
"""Maximum size of these texts."""

_log = structlog.get_logger(__name__)


def require_local_models(model: str) -> None:
    """Check that models other than the built-in one can be loaded.

    Args:
        model: name of the model, for the error.

    Raises:
        MissingExtra: the extra is not installed.
    """
    require_extra("ragstore-gateway[sentence-transformers]", f"The model {model}", "sentence_transformers")


class LocalEmbedder:
    """An `Embedder` over a model of sentence-transformers. The model is loaded once, when it is first used.

    Args:
        model: name of the model on the hub, or its folder.
        prefixes: what precedes queries and documents.
    """

    def __init__(self, model: str, prefixes: Prefixes) -> None:
        self._model_name = model
        self._prefixes = prefixes
        self._lock = threading.Lock()
        # One computation at a time: each one uses all cores. They wait here, and not in threads that others need.
        self._thread = FairSemaphore(1)
        self._model: Any = None
        self._dimension: int | None = None
        self.name = f"local/{model}"

    @property
    def dimension(self) -> int | None:
        """The number of components of each vector; None until the model is loaded."""
        return self._dimension

    def loaded(self) -> Any:
        """The model, loaded now if it is not loaded.

        Raises:
            ModelUnavailable: the extra is not installed, or there is no such model.
        """
        with self._lock:
            if self._model is None:
                try:
                    require_local_models(self._model_name)
                except MissingExtra as error:
                    raise ModelUnavailable(str(error)) from None
                from sentence_transformers import SentenceTransformer

                try:
                    self._model = SentenceTransformer(self._model_name)
                    # Not by its method, whose name has changed between versions.
                    self._dimension = int(self._model.encode(["dimension"], show_progress_bar=False).shape[1])
                except Exception as error:  # noqa: BLE001  # a hub, a file, a format: it raises what its libraries raise
                    _log.warning("model cannot be loaded", model=self._model_name, error=type(error).__name__)
                    raise ModelUnavailable(
                        f"The model {self._model_name} cannot be loaded: {type(error).__name__}"
                    ) from None
            return self._model

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        """Embed texts; see `Embedder`."""
        given = batches(self._prefixes.applied(list(texts), kind), MAX_BATCH, MAX_BATCH_BYTES)
        # Each batch is a job of its own: callers take turns, and no further one follows if this one leaves.
        found = [await self._thread.in_thread(self._embed, batch) for batch in given]
        vectors = np.concatenate(found)
        return normalized(vectors) if normalize else vectors

    def _embed(self, texts: list[str]) -> Vectors:
        model = self.loaded()
        try:
            vectors = model.encode(texts, convert_to_numpy=True, show_progress_bar=False)
            matrix = np.asarray(vectors, dtype=np.float32)
        except Exception as error:  # noqa: BLE001  # memory, a device, a format: it raises what its libraries raise
            # The exception's own text may have parts of the texts.
            _log.warning("local model failed", model=self._model_name, error=type(error).__name__)
            raise EmbeddingFailed(f"{self.name} failed: {type(error).__name__}") from None
        if matrix.ndim != 2 or matrix.shape[0] != len(texts) or not np.isfinite(matrix).all():
            raise EmbeddingFailed(f"{self.name} returned no usable vectors")
        return matrix
