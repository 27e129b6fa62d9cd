"""`ModelFolders`: models in ONNX's format that an administrator has put into folders.

A configuration names a folder as `onnx:NAME`. The folders are below one folder, which only a setting of the gateway
chooses: a caller who writes configurations can neither read other paths nor find out which exist.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec import Struct

from ragstore.kit.extras import MissingExtra, require_extra
from ragstore_gateway.embeddings.model_files import ModelDamaged
from ragstore_gateway.embeddings.onnx_session import OnnxSession

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PREFIX: Final = "onnx:"
TOKENIZER: Final = "tokenizer.json"
MODELS: Final = ("model.onnx", "onnx/model.onnx")
"""Where the model is: in the folder, or as sentence-transformers exports it."""

DEFAULT_MAX_TOKENS: Final = 512
MAX_TOKENS: Final = 8_192
"""Maximum number of tokens that are read together. Attention takes memory for each pair of them."""

_INPUTS: Final = frozenset({"input_ids", "attention_mask", "token_type_ids"})

S = TypeVar("S", bound=Struct)
T = TypeVar("T")


class _TokenizerConfig(Struct):
    model_max_length: float = DEFAULT_MAX_TOKENS


class _ModelConfig(Struct):
    max_position_embeddings: int = DEFAULT_MAX_TOKENS
    pad_token_id: int | None = None
    model_type: str = ""


class ModelFolderUnusable(ModelDamaged):
    """A folder is not one of a model, or its files cannot be used. The message names no path outside of it."""


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A folder with a model.

    Attributes:
        name: its name in configurations, with `onnx:`.
        path: where it is, without links.
        model: the file of the model, relative to it.
    """

    name: str
    path: Path
    model: str

    def read(self, file: str, type_: type[S]) -> S | None:
        """Read a file in JSON; None if it is absent.

        Raises:
            ModelFolderUnusable: it is not what sentence-transformers writes.
        """
        return self.read_any(file, type_) if (self.path / file).is_file() else None

    def read_any(self, file: str, type_: type[S]) -> S:
        """Read a file in JSON.

        Raises:
            ModelFolderUnusable: it is absent, or not what sentence-transformers writes.
        """
        return self._decoded(file, type_)

    def read_list(self, file: str, type_: type[S]) -> list[S]:
        """Read a list in JSON.

        Raises:
            ModelFolderUnusable: it is absent, or not what sentence-transformers writes.
        """
        return self._decoded(file, list[type_])  # type: ignore[valid-type]  # the type of each element is a value

    def _decoded(self, file: str, type_: type[T]) -> T:
        try:
            return msgspec.json.decode((self.path / file).read_bytes(), type=type_)
        except (OSError, ValueError):  # msgspec's errors are ValueError, and so is a NUL in a path
            raise ModelFolderUnusable(f"{file} of {self.name} cannot be read") from None

    @property
    def max_tokens(self) -> int:
        """The maximum number of tokens of its tokenizer, and of its positions."""
        tokenizer = self.read("tokenizer_config.json", _TokenizerConfig) or _TokenizerConfig()
        config = self.read("config.json", _ModelConfig) or _ModelConfig()
        # RoBERTa's positions begin behind the one of padding.
        is_roberta = "roberta" in config.model_type or config.model_type == "camembert"
        positions = (
            config.max_position_embeddings - (config.pad_token_id or 0) - 1
            if is_roberta
            else (config.max_position_embeddings)
        )
        # A tokenizer without a limit has 1e30.
        return max(1, int(min(tokenizer.model_max_length, positions, MAX_TOKENS)))

    def tokenizer(self) -> Tokenizer:
        """Its tokenizer.

        Raises:
            ModelFolderUnusable: it cannot be used.
        """
        from tokenizers import Tokenizer

        try:
            return Tokenizer.from_file(str(self.path / TOKENIZER))
        except Exception:  # noqa: BLE001  # it raises Exception itself
            raise ModelFolderUnusable(f"{TOKENIZER} of {self.name} cannot be used") from None

    def session(self) -> OnnxSession:
        """Its model.

        Raises:
            ModelFolderUnusable: it cannot be used, or has inputs other than tokens.
        """
        try:
            session = OnnxSession(self.path / self.model)
        except Exception:  # noqa: BLE001  # onnxruntime has no common class of its errors
            raise ModelFolderUnusable(f"{self.model} of {self.name} cannot be used") from None
        if unknown := session.inputs - _INPUTS:
            raise ModelFolderUnusable(f"{self.model} of {self.name} has unknown inputs: {', '.join(sorted(unknown))}")
        return session


class ModelFolders:
    """The folders of models.

    Args:
        root: the folder that they are in; empty for none.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._hashes: dict[tuple[str, int, int, int], str] = {}

    def find(self, name: str) -> ModelFolder:
        """Find a folder.

        Args:
            name: its name in configurations, with `onnx:`.

        Raises:
            ModelFolderUnusable: there is no such folder, or a file is missing. Or the extra `models` is not installed.
        """
        try:
            require_extra("ragstore-gateway[models]", f"The model {name}", "onnxruntime", "tokenizers")
        except MissingExtra as error:
            raise ModelFolderUnusable(str(error)) from None
        if not self._root:
            raise ModelFolderUnusable(f"{name} cannot be used: RAGSTORE_GATEWAY_MODELS_PATH is not set")
        below = PurePosixPath(name.removeprefix(PREFIX))
        absent = ModelFolderUnusable(f"There is no folder {name} below RAGSTORE_GATEWAY_MODELS_PATH")
        if not below.parts or below.is_absolute() or ".." in below.parts:
            raise absent
        try:
            root = Path(self._root).resolve(strict=True)
            path = (root / below).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):  # ValueError: NUL; RuntimeError: a loop of links
            raise absent from None
        if not path.is_relative_to(root) or not path.is_dir():
            raise absent
        model = next((each for each in MODELS if (path / each).is_file()), None)
        missing = [] if (path / TOKENIZER).is_file() else [TOKENIZER]
        missing += [MODELS[0]] if model is None else []
        if model is None or missing:
            raise ModelFolderUnusable(f"{name} has no {' and no '.join(missing)}")
        return ModelFolder(name, path, model)

    def sha256(self, folder: ModelFolder) -> str:
        """The hash of the model, its tokenizer and its settings: the identity of its vectors.

        A file is read again when its size, its time or its inode have changed.

        Raises:
            ModelFolderUnusable: a file cannot be read.
        """
        digest = hashlib.sha256()
        for path in _files(folder):
            digest.update(f"{path.relative_to(folder.path)}\0{self._hash(folder, path)}\n".encode())
        return digest.hexdigest()

    def _hash(self, folder: ModelFolder, path: Path) -> str:
        try:
            stat = path.stat()
            key = (str(path), stat.st_size, stat.st_mtime_ns, stat.st_ino)
            known = self._hashes.get(key)
            if known is None:
                with path.open("rb") as file:
                    known = hashlib.file_digest(file, "sha256").hexdigest()
                self._hashes = {each: kept for each, kept in self._hashes.items() if each[0] != key[0]}
                self._hashes[key] = known
        except OSError as error:
            raise ModelFolderUnusable(f"A file of {folder.name} cannot be read: {error.strerror}") from None
        return known


def _files(folder: ModelFolder) -> list[Path]:
    """The files that the vectors depend on: the model with its external data, JSON, and weights of further modules."""
    model = folder.path / folder.model
    found = [each for each in model.parent.iterdir() if each.name.startswith(model.name) and each.is_file()]
    for parent in (folder.path, *(each for each in folder.path.iterdir() if each.is_dir())):
        found += [each for each in parent.glob("*.json") if each.is_file()]
        if parent != folder.path:
            found += [each for each in parent.glob("*.safetensors") if each.is_file()]
    return sorted(set(found), key=os.fspath)
