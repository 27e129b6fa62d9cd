"""`Engines`: from a configuration's store type and parameters to a collection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Final

import msgspec
import structlog

from ragstore.kit.errors import InvalidRequest
from ragstore.kit.extras import MissingExtra
from ragstore_client import AsyncClient
from ragstore_gateway.engines.deferred_store import DeferredStore
from ragstore_gateway.engines.engine import Adapter, Engine
from ragstore_gateway.engines.engine_collection import EngineCollection
from ragstore_gateway.engines.engines import ENGINES, IN_MEMORY
from ragstore_gateway.engines.in_memory_store import InMemoryCollection, InMemoryStore
from ragstore_gateway.engines.linked_collection import LinkedCollection
from ragstore_gateway.engines.linked_store import LinkedStore, SharedStore
from ragstore_gateway.engines.named_engines import ENGINE_KEY, NamedEngine
from ragstore_gateway.engines.ragstore_store import RagstoreStore, clients_of, connect_ragstore
from ragstore_gateway.engines.shared_client import SharedClient
from ragstore_gateway.engines.store_parameters import (
    InMemoryParameters,
    Parameters,
    RagstoreParameters,
)
from ragstore_gateway.errors import DriverMissing, EngineMissing, StoreUnavailable
from ragstore_gateway.secrets.parameters import convert_parameters
from ragstore_gateway.secrets.secret_references import SecretReferences
from ragstore_gateway.settings import variable

TIMEOUT_SECONDS: Final = 30.0

_log = structlog.get_logger(__name__)


def validate(
    store_type: str, parameters: Mapping[str, object], secrets: SecretReferences, path: str = "$"
) -> Parameters:
    """Check a configuration's `storeType` and `storeParameters`. Nothing is sent.

    Args:
        store_type: the store.
        secrets: checks references to secrets.
        path: JSON path of the configuration, for errors.

    Returns:
        The parameters.

    Raises:
        InvalidRequest: the store is unknown or its driver is not installed, or some parameters are wrong; the error
            names each path.
    """
    engine = _engine(store_type, path)
    below = f"{path}.storeParameters"
    converted = convert_parameters(engine.parameters, parameters, below, secrets)
    try:
        engine.require_driver()
    except MissingExtra as error:
        raise InvalidRequest.at(f"{path}.storeType", str(error)) from None
    if converted.problem:
        raise InvalidRequest.at(below, converted.problem)
    if isinstance(converted, InMemoryParameters):
        _log.warning("in-memory engine configured", detail="a restart of the gateway removes its vectors")
    return converted


class Engines:
    """Opens collections, and keeps the connections to their engines.

    Args:
        secrets: resolves references to secrets.
        ragstore: calls the gateway's own store.
        timeout_seconds: time limit of one call of a store.
        ragstore_problem: why the gateway's own store cannot be used; empty if it can be.
        named: the engines that the settings name.
    """

    def __init__(
        self,
        secrets: SecretReferences,
        ragstore: AsyncClient,
        timeout_seconds: float = TIMEOUT_SECONDS,
        ragstore_problem: Callable[[], str] = str,
        named: Mapping[str, NamedEngine] | None = None,
    ) -> None:
        self._secrets = secrets
        self._named = dict(named or {})
        self._ragstore_problem = ragstore_problem
        self._ragstore = ragstore
        self._timeout_seconds = timeout_seconds
        memory: dict[str, InMemoryCollection] = {}
        self._own: dict[str, Callable[[Any, str, int], EngineCollection]] = {
            "ragstore": self._open_ragstore,
            IN_MEMORY: lambda _, name, dimension: InMemoryStore(memory, name, dimension),
        }
        """The engines without a module: how to open a collection by its parameters, name and dimension."""
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

    def validate(self, store_type: str, parameters: Mapping[str, object], path: str = "$") -> Parameters:
        """Check a configuration; see `validate`."""
        return validate(store_type, parameters, self._secrets, path)

    def check(self, store_type: str, parameters: Mapping[str, object], path: str = "$") -> None:
        """Check a configuration that is written.

        Args:
            store_type: the store.
            path: JSON path of the configuration, for errors.

        Raises:
            InvalidRequest: it cannot be used; see `validate`. Or a secret can never be read by this process.
        """
        self.validate(store_type, parameters, path)
        self._secrets.check_readable(parameters, f"{path}.storeParameters")

    def check_named(self, name: str, parameters: Mapping[str, object]) -> None:
        """Check the engine that a base names.

        Args:
            parameters: the `storeParameters` of the base.

        Raises:
            InvalidRequest: there is no such engine, or the base has parameters beside it.
        """
        if name not in self._named:
            known = f"Must be one of {', '.join(self._named)}" if self._named else f"{variable('engines')} names none"
            raise InvalidRequest.at("$.engine", known)
        if parameters:
            raise InvalidRequest.at("$.storeParameters", "Must be empty: the named engine has its own parameters")

    def type_of(self, name: str) -> str | None:
        """The store type of a named engine; None if there is none of this name."""
        found = self._named.get(name)
        return None if found is None else found.store_type

    def open_linked(self, store_type: str, parameters: Mapping[str, object], collection: str) -> LinkedCollection:
        """Open a collection that others fill, to describe it; see `open`.

        Args:
            store_type: the store.
            parameters: its parameters, which name the collection.
            collection: name of the collection in the gateway.

        Raises:
            DriverMissing: the store's driver is not installed.
            InvalidRequest: the parameters are not valid, or the store's collections cannot be linked.
        """
        store = self.open(store_type, parameters, collection, 0)
        if not isinstance(store, LinkedCollection):
            raise InvalidRequest.at("$.storeType", "Collections of this store cannot be linked")
        return store

    def open(
        self, store_type: str, parameters: Mapping[str, object], collection: str, dimension: int
    ) -> EngineCollection:
        """Open a collection. Nothing is sent, and the collection need not exist.

        Args:
            store_type: the store.
            parameters: its parameters, or the name of a named engine as `ENGINE_KEY`.
            collection: name of the collection: 3 to 128 letters, digits and `._-`, unique in the gateway.
            dimension: dimension of its vectors.

        Raises:
            DriverMissing: the store's driver is not installed.
            EngineMissing: there is no engine of this name.
            InvalidRequest: the parameters are not valid.
        """
        store_type, parameters = self._resolved(store_type, parameters)
        engine = _engine(store_type, "$")
        try:
            engine.require_driver()
        except MissingExtra as error:
            raise DriverMissing(str(error)) from None
        converted = convert_parameters(engine.parameters, parameters, "$.storeParameters", self._secrets)
        if not engine.module:
            return self._own[engine.name](converted, collection, dimension)

        def open_() -> EngineCollection:
            self._imported.add(engine.module)
            adapter: Adapter[Any, Any] = import_module(engine.module).ADAPTER
            client = self._client(converted, adapter.connect)
            return adapter.open(client, converted, collection, dimension, self._timeout_seconds)

        return open_() if engine.module in self._imported else DeferredStore(engine.module, open_)

    def _resolved(self, store_type: str, parameters: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
        """The store type and the parameters of a collection, whose base may name its engine."""
        if ENGINE_KEY not in parameters:
            return store_type, parameters
        name = str(parameters[ENGINE_KEY])
        if name not in self._named:
            raise EngineMissing(f"{variable('engines')} has no engine '{name}', which the knowledge base names")
        found = self._named[name]
        return found.store_type, found.parameters

    def _open_ragstore(self, parameters: RagstoreParameters, collection: str, dimension: int) -> EngineCollection:
        is_own, timeout = parameters.base_url is None, self._timeout_seconds
        client = self._own_store if is_own else clients_of(self._client(parameters, connect_ragstore))
        if parameters.collection is None:
            return RagstoreStore(client, collection, dimension, timeout)
        if parameters.shared:
            return SharedStore(client, parameters, collection, dimension, timeout)
        return LinkedStore(client, parameters, dimension, timeout)

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

    def _client(self, parameters: Parameters, connect: Any) -> Any:
        """The client of an engine: one for all collections with the same parameters of the connection.

        References to secrets are part of its identity, secrets are not.
        """
        given = msgspec.to_builtins(parameters).items()
        connection = {name: value for name, value in given if name not in parameters.of_collections}
        identity = type(parameters).__name__.encode() + msgspec.json.encode(connection)
        if identity not in self._clients:
            self._clients[identity] = connect(parameters, self._secrets, self._timeout_seconds)
        return self._clients[identity]


def _engine(store_type: str, path: str) -> Engine:
    """The engine of a name.

    Raises:
        InvalidRequest: there is none.
    """
    if store_type not in ENGINES:
        raise InvalidRequest.at(f"{path}.storeType", f"Must be one of {', '.join(ENGINES)}")
    return ENGINES[store_type]
