"""The models that are installed with the gateway."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from ragstore_gateway.embeddings import minilm, wordllama
from ragstore_gateway.embeddings.minilm import MiniLmEmbedder
from ragstore_gateway.embeddings.wordllama import WordLlamaEmbedder

BuiltinEmbedder: TypeAlias = WordLlamaEmbedder | MiniLmEmbedder


@dataclass(frozen=True)
class BuiltinModel:
    """A model that is installed with the gateway.

    Attributes:
        create: loads it; it raises `ModelDamaged` if its files cannot be used.
        dimensions: the dimensions to which its vectors may be cut; empty for its own only.
        limits: its limits, for the log.
    """

    create: Callable[[], BuiltinEmbedder]
    dimensions: tuple[int, ...]
    limits: str


MODELS: Final[Mapping[str, BuiltinModel]] = {
    wordllama.NAME: BuiltinModel(WordLlamaEmbedder, wordllama.DIMENSIONS, wordllama.LIMITS),
    minilm.NAME: BuiltinModel(MiniLmEmbedder, (), minilm.LIMITS),
}
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
