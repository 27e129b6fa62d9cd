"""The engines. An engine is in its module, its parameters and this list; everything else is derived from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ragstore_gateway.vector_stores.engine import Engine
from ragstore_gateway.vector_stores.store_parameters import (
    ChromaParameters,
    ElasticsearchParameters,
    InMemoryParameters,
    MongodbParameters,
    PgvectorParameters,
    QdrantParameters,
    RagstoreParameters,
)

_DECLARED: Final = (
    Engine("ragstore", RagstoreParameters),
    Engine("in-memory", InMemoryParameters),
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

ENGINES: Final = {each.name: each for each in _DECLARED}
"""The engines by name, in the order of messages and of JSON Schema."""

if TYPE_CHECKING:
    StoreType: TypeAlias = str
else:
    # Decoding and JSON Schema need the names themselves. mypy accepts no names that are computed.
    StoreType = Literal[tuple(ENGINES)]
