"""Models in ONNX's format, run by onnxruntime, which the extra `models` installs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Encoding

_NO_WARNINGS: Final = 3
"""onnxruntime writes its messages to the standard error, not to the log. Errors are exceptions, too."""


class _Value(Protocol):
    name: str


class OnnxSession:
    """A model that is loaded.

    Args:
        model: the content of its file, or its path. A file with external data needs a path.

    Raises:
        Exception: onnxruntime cannot use it. There is no common class of its errors.
    """

    def __init__(self, model: bytes | Path) -> None:
        # Its import takes 0.1 s, which a gateway with another model saves.
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = _NO_WARNINGS
        # A pattern is kept for each shape of a group. Without the arena, the C library kept up to 300 MiB more.
        options.enable_mem_pattern = False
        provider = ("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})
        given = str(model) if isinstance(model, Path) else model
        self._session: Any = onnxruntime.InferenceSession(given, options, providers=[provider])
        self.inputs = frozenset(_names(self._session.get_inputs()))
        self.outputs = _names(self._session.get_outputs())

    def run(self, output: str, encodings: list[Encoding]) -> NDArray[np.float32]:
        """Compute an output for the tokens of texts.

        Args:
            output: its name.
            encodings: the tokens of each text. Shorter ones are padded; the mask says where.

        Returns:
            A row for each text.

        Raises:
            Exception: onnxruntime failed.
        """
        shape = (len(encodings), max(len(each.ids) for each in encodings))
        given = {name: np.zeros(shape, dtype=np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
        for row, each in enumerate(encodings):
            length = len(each.ids)
            given["input_ids"][row, :length] = each.ids
            given["attention_mask"][row, :length] = 1
            given["token_type_ids"][row, :length] = each.type_ids
        known = {name: value for name, value in given.items() if name in self.inputs}
        return np.asarray(self._session.run([output], known)[0], dtype=np.float32)


def _names(values: list[_Value]) -> list[str]:
    return [each.name for each in values]
