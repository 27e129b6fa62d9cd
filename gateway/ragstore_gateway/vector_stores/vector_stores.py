"""`VectorStores`: from a configuration's store type and parameters to a collection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import msgspec
import structlog

from ragstore.kit.errors import InvalidRequest
from ragstore.kit.extras import MissingExtra, require_extra
from ragstore_client import AsyncClient
from ragstore_gateway.errors import DriverMissing, StoreUnavailable
from ragstore_gateway.secrets.parameters import convert_parameters
from ragstore_gateway.secrets.secret_references import SecretReferences
from ragstore_gateway.vector_stores.deferred_store import DeferredStore
from ragstore_gateway.vector_stores.in_memory_store import InMemoryCollection, InMemoryStore
from ragstore_gateway.vector_stores.ragstore_store import RagstoreStore
from ragstore_gateway.vector_stores.shared_client import SharedClient
from ragstore_gateway.vector_stores.store_parameters import (
    ChromaParameters,
    ElasticsearchParameters,
    InMemoryParameters,
    MongodbParameters,
    PgvectorParameters,
    QdrantParameters,
    RagstoreParameters,
)
from ragstore_gateway.vector_stores.vector_store import VectorStore

StoreParameters: TypeAlias = (
    RagstoreParameters
    | InMemoryParameters
    | ChromaParameters
    | PgvectorParameters
    | QdrantParameters
    | ElasticsearchParameters
    | MongodbParameters
)

STORES: Final[dict[str, type[StoreParameters]]] = {
    "ragstore": RagstoreParameters,
    "in-memory": InMemoryParameters,
    "chroma": ChromaParameters,
    "pgvector": PgvectorParameters,
    "qdrant": QdrantParameters,
    "elasticsearch": ElasticsearchParameters,
    "mongodb-atlas": MongodbParameters,
}
"""The stores: the struct of their parameters."""

EXTRAS: Final = {
    "qdrant": ("qdrant", "qdrant_client"),
    "elasticsearch": ("elasticsearch", "elasticsearch"),
    "mongodb-atlas": ("mongodb", "pymongo"),
}
"""The stores whose driver is installed by an extra: the extra, and a module of the driver."""

MODULES: Final = {
    "chroma": "chroma_store",
    "pgvector": "pgvector_store",
    "qdrant": "qdrant_store",
    "elasticsearch": "elasticsearch_store",
    "mongodb-atlas": "mongodb_store",
}
"""The stores whose module is imported by the first call: it imports a driver."""

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
    below = f"{path}.storeParameters"
    converted = convert_parameters(STORES[store_type], parameters, below, secrets)
    try:
        _require_driver(store_type)
    except MissingExtra as error:
        raise InvalidRequest.at(f"{path}.storeType", str(error)) from None
    if isinstance(converted, ElasticsearchParameters) and (converted.user_name is None) != (converted.password is None):
        raise InvalidRequest.at(below, "userName and password belong together")
    if isinstance(converted, InMemoryParameters):
        _log.warning("in-memory vector store configured", detail="a restart of the gateway removes its vectors")
    return converted


class VectorStores:
    """Opens collections, and keeps the connections to their engines.

    Args:
        secrets: resolves references to secrets.
        ragstore: calls the gateway's own store.
        timeout_seconds: time limit of one call of a store.
        ragstore_problem: why the gateway's own store cannot be used; empty if it can be.
    """

    def __init__(
        self,
        secrets: SecretReferences,
        ragstore: AsyncClient,
        timeout_seconds: float = TIMEOUT_SECONDS,
        ragstore_problem: Callable[[], str] = str,
    ) -> None:
        self._secrets = secrets
        self._ragstore_problem = ragstore_problem
        self._ragstore = ragstore
        self._timeout_seconds = timeout_seconds
        self._memory: dict[str, InMemoryCollection] = {}
        self._clients: dict[bytes, SharedClient[Any]] = {}
        self._imported: set[str] = set()

    @asynccontextmanager
    async def running(self, _: object = None) -> AsyncIterator[None]:
        """Close the connections at the end."""
        try:
            yield
        finally:
            for client in self._clients.values():
                await client.aclose()

    def validate(self, store_type: str, parameters: Mapping[str, object], path: str = "$") -> StoreParameters:
        """Check a configuration; see `validate`."""
        return validate(store_type, parameters, self._secrets, path)

    def check(self, store_type: str, parameters: Mapping[str, object], path: str = "$") -> None:
        """Check a configuration that is written.

        Args:
            store_type: the store.
            parameters: its parameters.
            path: JSON path of the configuration, for errors.

        Raises:
            InvalidRequest: it cannot be used; see `validate`. Or a secret can never be read by this process.
        """
        self.validate(store_type, parameters, path)
        self._secrets.check_readable(parameters, f"{path}.storeParameters")

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
        try:
            _require_driver(store_type)
        except MissingExtra as error:
            raise DriverMissing(str(error)) from None
        if store_type not in STORES:
            raise InvalidRequest.at("$.storeType", f"Must be one of {', '.join(STORES)}")
        converted = convert_parameters(STORES[store_type], parameters, "$.storeParameters", self._secrets)
        if store_type not in MODULES or store_type in self._imported:
            return self._open(converted, collection, dimension)

        def open_() -> VectorStore:
            self._imported.add(store_type)
            return self._open(converted, collection, dimension)

        return DeferredStore(f"{__package__}.{MODULES[store_type]}", open_)

    def _open(self, parameters: StoreParameters, collection: str, dimension: int) -> VectorStore:
        """The store of parameters. Modules of engines are imported when they are used."""
        seconds = self._timeout_seconds
        match parameters:
            case RagstoreParameters():
                return RagstoreStore(self._own_store, collection, dimension, seconds)
            case InMemoryParameters():
                return InMemoryStore(self._memory, collection, dimension)
            case ChromaParameters():
                from ragstore_gateway.vector_stores.chroma_store import chroma_store, connect_chroma

                return chroma_store(
                    self._client(parameters, connect_chroma), parameters, collection, dimension, seconds
                )
            case PgvectorParameters():
                from ragstore_gateway.vector_stores.pgvector_store import PgvectorStore, connect_pgvector

                client = self._client(parameters, connect_pgvector)
                return PgvectorStore(client, parameters, collection, dimension, seconds)
            case QdrantParameters():
                from ragstore_gateway.vector_stores.qdrant_store import QdrantStore, connect_qdrant

                return QdrantStore(self._client(parameters, connect_qdrant), parameters, collection, dimension, seconds)
            case ElasticsearchParameters():
                from ragstore_gateway.vector_stores.elasticsearch_store import ElasticsearchStore, connect_elasticsearch

                client = self._client(parameters, connect_elasticsearch)
                return ElasticsearchStore(client, parameters, collection, dimension, seconds)
            case MongodbParameters():
                from ragstore_gateway.vector_stores.mongodb_store import MongodbStore, connect_mongodb

                client = self._client(parameters, connect_mongodb)
                return MongodbStore(client, parameters, collection, dimension, seconds)

    @asynccontextmanager
    async def _own_store(self) -> AsyncIterator[AsyncClient]:
        """Lend the client of the gateway's own store.

        Raises:
            StoreUnavailable: the gateway may not use it. Without this, hidden collections would look like empty ones.
        """
        problem = self._ragstore_problem()
        if problem:
            raise StoreUnavailable(problem)
        yield self._ragstore

    def _client(self, parameters: StoreParameters, connect: Any) -> Any:
        """The client of an engine: one for all collections with the same parameters of the connection.

        References to secrets are part of its identity, secrets are not.
        """
        given = msgspec.to_builtins(parameters).items()
        connection = {name: value for name, value in given if name not in parameters.of_collections}
        identity = type(parameters).__name__.encode() + msgspec.json.encode(connection)
        if identity not in self._clients:
            self._clients[identity] = connect(parameters, self._secrets, self._timeout_seconds)
        return self._clients[identity]


def _require_driver(store_type: str) -> None:
    if store_type in EXTRAS:
        extra, module = EXTRAS[store_type]
        require_extra(f"ragstore-gateway[{extra}]", f"The vector store {store_type}", module)
