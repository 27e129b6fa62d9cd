"""Reranking models in ONNX's format, without PyTorch: `onnx:FOLDER` as the model of a ranking."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import structlog

from ragstore.kit.errors import InvalidRequest
from ragstore.kit.fair_queue import FairSemaphore
from ragstore_gateway.embeddings.model_files import ModelDamaged
from ragstore_gateway.embeddings.model_folders import PREFIX, ModelFolder, ModelFolders, ModelFolderUnusable
from ragstore_gateway.embeddings.onnx_session import OnnxSession
from ragstore_gateway.embeddings.sentence_model import groups_of
from ragstore_gateway.errors import EmbeddingFailed, ModelUnavailable

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

OUTPUT: Final = "logits"
MAX_MODELS: Final = 8
"""Maximum number of models that are kept. The least recently used one is loaded again when it is used."""

_log = structlog.get_logger(__name__)


class CrossEncoder:
    """Scores texts for a question, both of which it reads together. A text that is too long is cut off.

    Args:
        folder: the folder of the model.

    Raises:
        ModelFolderUnusable: its files cannot be used, or it has not one logit.
    """

    def __init__(self, folder: ModelFolder) -> None:
        self._name = folder.name
        self._session: OnnxSession = folder.session()
        self._tokenizer: Tokenizer = folder.tokenizer()
        self._tokenizer.enable_truncation(folder.max_tokens, strategy="longest_first")
        self._tokenizer.no_padding()
        self._threads = FairSemaphore(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
        try:
            shape = self._session.run(OUTPUT, [self._tokenizer.encode("question", "text")]).shape
        except Exception:  # noqa: BLE001  # onnxruntime has no common class of its errors
            raise ModelFolderUnusable(f"{folder.model} of {folder.name} has no output {OUTPUT}") from None
        if shape != (1, 1):
            raise ModelFolderUnusable(f"{folder.model} of {folder.name} must have one logit")

    async def scores(self, question: str, texts: Sequence[str]) -> list[float]:
        """Score texts.

        Returns:
            A score for each text, the highest one for the most relevant. Scores of one question can be compared.

        Raises:
            EmbeddingFailed: the model returned no usable scores.
        """
        scores = np.zeros(len(texts), dtype=np.float32)
        pairs = await self._threads.in_thread(self._pairs, question, texts)
        # Each group is a job of its own: callers take turns, and no further one follows if this one leaves.
        for group in groups_of(pairs):
            found = await self._threads.in_thread(self._logits, [pair for _, pair in group])
            scores[[index for index, _ in group]] = found
        return [float(score) for score in scores]

    def _pairs(self, question: str, texts: Sequence[str]) -> list[tuple[int, Encoding]]:
        return list(enumerate(self._tokenizer.encode_batch([(question, text) for text in texts])))

    def _logits(self, pairs: list[Encoding]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        try:
            logits = self._session.run(OUTPUT, pairs)
        except Exception as error:  # noqa: BLE001  # memory, an operator, a shape: it raises what its libraries raise
            _log.warning("model failed", model=self._name, error=type(error).__name__)
            raise EmbeddingFailed(f"{self._name} failed: {type(error).__name__}") from None
        if not np.isfinite(logits).all():
            raise EmbeddingFailed(f"{self._name} returned no usable scores")
        return logits.reshape(-1)


class CrossEncoders:
    """Loads reranking models, each once.

    Args:
        folders: the folders of models.
    """

    def __init__(self, folders: ModelFolders) -> None:
        self._folders = folders
        self._lock = threading.Lock()
        self._models: OrderedDict[str, CrossEncoder] = OrderedDict()

    def check(self, name: str, path: str) -> None:
        """Check a model of a configuration that is written: its files exist.

        Args:
            name: its name, with `onnx:`.
            path: JSON path of the field, for the error.

        Raises:
            InvalidRequest: it is no folder with its files.
        """
        if not name.startswith(PREFIX):
            raise InvalidRequest.at(path, f"Must be {PREFIX}FOLDER")
        try:
            self._folders.find(name)
        except ModelFolderUnusable as error:
            raise InvalidRequest.at(path, str(error)) from None

    def load(self, name: str) -> CrossEncoder:
        """The model of a folder, with the files that it has now.

        Args:
            name: its name in configurations, with `onnx:`.

        Raises:
            ModelUnavailable: it cannot be used.
        """
        with self._lock:
            try:
                folder = self._folders.find(name)
                key = f"{name}@{self._folders.sha256(folder)}"
                if key not in self._models:
                    self._models[key] = CrossEncoder(folder)
            except ModelDamaged as error:
                raise ModelUnavailable(str(error)) from None
            self._models.move_to_end(key)
            while len(self._models) > MAX_MODELS:
                self._models.popitem(last=False)
            return self._models[key]
