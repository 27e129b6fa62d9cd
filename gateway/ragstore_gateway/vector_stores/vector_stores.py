"""`VectorStores`: from a configuration's store type and parameters to a collection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import structlog

from ragstore.kit.errors import InvalidRequest
from ragstore_client import AsyncClient
from ragstore_gateway.parameters import convert_parameters
from ragstore_gateway.secret_references import SecretReferences
from ragstore_gateway.vector_stores.in_memory_store import InMemoryCollection, InMemoryParameters, InMemoryStore
from ragstore_gateway.vector_stores.ragstore_store import RagstoreParameters, RagstoreStore
from ragstore_gateway.vector_stores.vector_store import VectorStore

StoreParameters: TypeAlias = RagstoreParameters | InMemoryParameters

STORES: Final[dict[str, type[StoreParameters]]] = {
    "ragstore": RagstoreParameters,
    "in-memory": InMemoryParameters,
}
"""The stores: the struct of their parameters."""

TIMEOUT_SECONDS: Final = 30.0

_log = structlog.get_logger(__name__)


def validate(
    store_type: str, parameters: Mapping[str, object], secrets: SecretReferences, path: str = "$"
) -> StoreParameters:
    """Check a configuration's `storeType` and `storeParameters`. Nothing is sent.

    Args:
        store_type: the store.
        parameters: its parameters.
        secrets: checks references to secrets.
        path: JSON path of the configuration, for errors.

    Returns:
        The parameters.

    Raises:
        InvalidRequest: the store is unknown or its driver is not installed, or some parameters are wrong; the error
            names each path.
    """
    if store_type not in STORES:
        raise InvalidRequest.at(f"{path}.storeType", f"Must be one of {', '.join(STORES)}")
    converted = convert_parameters(STORES[store_type], parameters, f"{path}.storeParameters", secrets)
    if isinstance(converted, InMemoryParameters):
        _log.warning("in-memory vector store: its documents are not found any more after a restart")
    return converted


class VectorStores:
    """Opens collections, and keeps the connections to their engines.

    Args:
        secrets: resolves references to secrets.
        ragstore: calls the gateway's own store.
        timeout_seconds: time limit of one call of a store.
    """

    def __init__(
        self, secrets: SecretReferences, ragstore: AsyncClient, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self._secrets = secrets
        self._ragstore = ragstore
        self._timeout_seconds = timeout_seconds
        self._memory: dict[str, InMemoryCollection] = {}

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Close the connections at the end."""
        yield

    def validate(self, store_type: str, parameters: Mapping[str, object], path: str = "$") -> StoreParameters:
        """Check a configuration; see `validate`."""
        return validate(store_type, parameters, self._secrets, path)

    def open(self, store_type: str, parameters: Mapping[str, object], collection: str, dimension: int) -> VectorStore:
        """Open a collection. Nothing is sent, and the collection need not exist.

        Args:
            store_type: the store.
            parameters: its parameters.
            collection: name of the collection: 3 to 128 letters, digits and `._-`, unique in the gateway.
            dimension: dimension of its vectors.

        Raises:
            DriverMissing: the store's driver is not installed.
            InvalidRequest: the parameters are not valid.
        """
        if store_type == "in-memory":
            return InMemoryStore(self._memory, collection, dimension)
        return RagstoreStore(self._ragstore, collection, dimension, self._timeout_seconds)
