"""The engines. An engine is in its module, its parameters and this list; everything else is derived from it.

Other distributions add engines by entry points of the group `ragstore_gateway.engines`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ragstore_gateway.engines.engine import Engine, EngineInvalid
from ragstore_gateway.engines.store_parameters import (
    ChromaParameters,
    ElasticsearchParameters,
    InMemoryParameters,
    MongodbParameters,
    PgvectorParameters,
    QdrantParameters,
    RagstoreParameters,
)

IN_MEMORY: Final = "in-memory"
"""The engine whose vectors are in the memory of one process."""

_DECLARED: Final = (
    Engine("ragstore", RagstoreParameters),
    Engine(IN_MEMORY, InMemoryParameters),
    Engine("chroma", ChromaParameters, f"{__package__}.chroma_store"),
    Engine("pgvector", PgvectorParameters, f"{__package__}.pgvector_store"),
    Engine("qdrant", QdrantParameters, f"{__package__}.qdrant_adapter", "qdrant", "qdrant_client"),
    Engine(
        "elasticsearch",
        ElasticsearchParameters,
        f"{__package__}.elasticsearch_store",
        "elasticsearch",
        "elasticsearch",
    ),
    Engine("mongodb-atlas", MongodbParameters, f"{__package__}.mongodb_store", "mongodb", "pymongo"),
)

GROUP: Final = "ragstore_gateway.engines"
"""The group of the entry points that other distributions declare. Each names an `Engine`."""


def _installed() -> Iterator[Engine | str]:
    """The engines of other distributions by name; what is wrong in place of an engine that cannot be used."""
    taken = {each.name for each in _DECLARED}
    for point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        origin = f"The engine '{point.name}' of {point.dist.name if point.dist else 'an unknown distribution'}"
        try:
            engine = point.load()
        except (ImportError, AttributeError) as error:
            yield f"{origin} cannot be loaded: {error}"
            continue
        if not isinstance(engine, Engine) or not engine.module:
            yield f"{origin} is not an Engine with a module: {point.value}"
        elif engine.name in taken:
            yield f"{origin} has the name of another engine: {engine.name}"
        else:
            taken.add(engine.name)
            yield engine


_INSTALLED: Final = tuple(_installed())

ENGINES: Final = {each.name: each for each in (*_DECLARED, *_INSTALLED) if isinstance(each, Engine)}
"""The engines by name, in the order of messages and of JSON Schema."""

if TYPE_CHECKING:
    StoreType: TypeAlias = str
else:
    # Decoding and JSON Schema need the names themselves. mypy accepts no names that are computed.
    StoreType = Literal[tuple(ENGINES)]


def check_installed() -> None:
    """Check the engines of other distributions.

    Raises:
        EngineInvalid: one cannot be used.
    """
    for each in _INSTALLED:
        if isinstance(each, str):
            raise EngineInvalid(each)
