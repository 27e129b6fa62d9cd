"""`Engine`: what the gateway knows of an engine. `Adapter`: what its module has, which imports its driver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ragstore.kit.extras import require_extra
from ragstore_gateway.engines.engine_collection import EngineCollection
from ragstore_gateway.engines.shared_client import C, SharedClient
from ragstore_gateway.engines.store_parameters import Parameters
from ragstore_gateway.secrets.secret_references import SecretReferences

P = TypeVar("P", bound=Parameters)


class EngineInvalid(Exception):
    """An engine of another distribution cannot be used. The text is one line and names both."""


@dataclass(frozen=True)
class Engine:
    """An engine, as configurations select it by their `storeType`. `engines.ENGINES` lists all of them.

    Attributes:
        name: its name in configurations.
        parameters: the struct of its parameters.
        module: the module of its `ADAPTER`, which the first call imports; empty for an engine of the gateway's own.
        extra: the extra of the gateway that installs `driver`.
        driver: the module of its driver; empty if it is always installed.
    """

    name: str
    parameters: type[Parameters]
    module: str = ""
    extra: str = ""
    driver: str = ""

    def require_driver(self) -> None:
        """Check that its driver is installed, without importing it.

        Raises:
            MissingExtra: it is not.
        """
        if self.driver:
            require_extra(f"ragstore-gateway[{self.extra}]", f"The engine {self.name}", self.driver)


@dataclass(frozen=True)
class Adapter(Generic[P, C]):
    """The functions of an engine's module.

    Attributes:
        connect: makes the client of an engine, of its parameters and the time limit of one call, in seconds.
        open: opens a collection with that client, by its name and dimension and the time limit. Nothing is sent.
    """

    connect: Callable[[P, SecretReferences, float], SharedClient[C]]
    open: Callable[[SharedClient[C], P, str, int, float], EngineCollection]
