"""`LazyModel`: a model that is loaded in a thread when it is first used, so that other requests do not wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

from ragstore_gateway.embeddings.embedder import Embedder, Kind, Vectors
from ragstore_gateway.embeddings.model_files import ModelDamaged
from ragstore_gateway.errors import ModelUnavailable


class LazyModel:
    """An `Embedder` over one that takes long to load.

    Args:
        name: the name of the model, with its provider.
        load: loads it; it raises `ModelDamaged` if its files cannot be used.
        dimension: number of components of its vectors; None if its files say so.
    """

    def __init__(self, name: str, load: Callable[[], Embedder], dimension: int | None = None) -> None:
        self.name = name
        self._load = load
        self._dimension = dimension
        self._lock = threading.Lock()
        self._model: Embedder | None = None

    @property
    def dimension(self) -> int | None:
        """The number of components of each vector; None until the model is loaded."""
        return self._dimension if self._model is None else self._model.dimension

    def loaded(self) -> Embedder:
        """The model, loaded now if it is not loaded.

        Raises:
            ModelUnavailable: its files cannot be used. The next call tries again.
        """
        with self._lock:
            if self._model is None:
                try:
                    self._model = self._load()
                except ModelDamaged as error:
                    raise ModelUnavailable(str(error)) from None
            return self._model

    async def embed(self, texts: Sequence[str], kind: Kind, *, normalize: bool = True) -> Vectors:
        """Embed texts; see `Embedder`."""
        model = self._model
        if model is None:
            model = await asyncio.to_thread(self.loaded)
        return await model.embed(texts, kind, normalize=normalize)
