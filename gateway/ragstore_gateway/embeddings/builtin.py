"""The models that an extra installs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from ragstore.kit.extras import require_extra
from ragstore_gateway.embeddings import e5_small, minilm, wordllama
from ragstore_gateway.embeddings.sentence_model import SentenceModel
from ragstore_gateway.embeddings.wordllama import WordLlamaEmbedder

BuiltinEmbedder: TypeAlias = WordLlamaEmbedder | SentenceModel

EXTRA: Final = "models"
"""The extra of the gateway with the English models, and with the libraries that run each model."""


@dataclass(frozen=True)
class BuiltinModel:
    """A model whose files an extra installs.

    Attributes:
        create: loads it; it raises `ModelDamaged` if its files cannot be used.
        dimension: number of components of its vectors.
        dimensions: the dimensions to which its vectors may be cut; empty for its own only.
        limits: its limits, for the log.
        extra: the extra of the gateway that installs `package`.
        package: the package of its files.
    """

    name: str
    create: Callable[[], BuiltinEmbedder]
    dimension: int
    dimensions: tuple[int, ...]
    limits: str
    extra: str
    package: str

    def require_extra(self) -> None:
        """Check that its files are installed.

        Raises:
            MissingExtra: they are not.
        """
        require_extra(f"ragstore-gateway[{self.extra}]", f"The model {self.name}", self.package)


_MODELS: Final = (
    BuiltinModel(
        wordllama.NAME,
        WordLlamaEmbedder,
        wordllama.DIMENSIONS[0],
        wordllama.DIMENSIONS,
        wordllama.LIMITS,
        EXTRA,
        wordllama.PACKAGE,
    ),
    BuiltinModel(minilm.NAME, minilm.load_minilm, minilm.DIMENSION, (), minilm.LIMITS, EXTRA, minilm.PACKAGE),
    BuiltinModel(
        e5_small.NAME,
        e5_small.load_e5_small,
        e5_small.DIMENSION,
        (),
        e5_small.LIMITS,
        e5_small.EXTRA,
        e5_small.PACKAGE,
    ),
)

MODELS: Final[Mapping[str, BuiltinModel]] = {model.name: model for model in _MODELS}
"""The models by name."""

DEFAULT: Final = wordllama.NAME
"""The model of a configuration that names none. Stored configurations rely on it."""

OF_NEW_BASES: Final = minilm.NAME
"""The model of a new knowledge base that names none. It is stored with the base, which keeps it."""


PUBLISHED: Final[Mapping[str, str]] = {
    "all-MiniLM-L6-v2": minilm.NAME,
    "sentence-transformers/all-MiniLM-L6-v2": minilm.NAME,
}
"""The names under which the models are published. Collections of others record them."""


def builtin_name(model: str) -> str | None:
    """The name of a built-in model.

    Args:
        model: the name, with or without `builtin/`, or the name under which it is published.

    Returns:
        The whole name; None if there is no such model.
    """
    if model in PUBLISHED:
        return PUBLISHED[model]
    return next((name for name in MODELS if model in (name, name.partition("/")[2])), None)
