"""Opens collections of Qdrant: collections of a base, or one that others fill."""

from __future__ import annotations

from typing import Final

from ragstore_gateway.engines.engine import Adapter
from ragstore_gateway.engines.qdrant_linked_store import LinkedQdrantStore
from ragstore_gateway.engines.qdrant_store import QdrantConnection, QdrantStore, connect_qdrant
from ragstore_gateway.engines.shared_client import SharedClient
from ragstore_gateway.engines.store_parameters import QdrantParameters


def qdrant_store(
    client: SharedClient[QdrantConnection],
    parameters: QdrantParameters,
    collection: str,
    dimension: int,
    timeout_seconds: float,
) -> QdrantStore:
    """A collection of a Qdrant server.

    Args:
        client: the connection to the server.
        collection: name of the collection of a base.
        timeout_seconds: time limit of one call.
    """
    if parameters.collection is not None:
        return LinkedQdrantStore(client, parameters, dimension, timeout_seconds)
    return QdrantStore(client, parameters, collection, dimension, timeout_seconds)


ADAPTER: Final = Adapter(connect_qdrant, qdrant_store)
