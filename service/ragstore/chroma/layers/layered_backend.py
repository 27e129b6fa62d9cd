"""`LayeredBackend`: a backend with layers around its calls.

Retries and the circuit breaker wrap the backend, not the store: a store method that makes several calls (look up ids,
then write; look up documents, then delete and count them) is not idempotent as a whole, but each call to Chroma is.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from ragstore.chroma.backend import Backend
from ragstore.chroma.operations import OPERATIONS, Operation

T = TypeVar("T")

NextCall: TypeAlias = Callable[[Operation[T]], Awaitable[T]]
"""The next step of a layer: the next layer that the operation concerns, or the backend."""

_Chain: TypeAlias = Callable[[Operation[Any]], Coroutine[Any, Any, Any]]


class BackendLayer(ABC):
    """One method around the calls to Chroma."""

    def concerns(self, kind: type[Operation[object]]) -> bool:
        """Whether calls of an operation pass through this layer. Other calls cost nothing."""
        return True

    @abstractmethod
    async def call(self, next_call: NextCall[T], operation: Operation[T]) -> T:
        """Execute an operation by means of `next_call`.

        Args:
            next_call: executes it in the next layer.

        Returns:
            Its result.
        """

    def close(self) -> None:  # noqa: B027  # most layers hold nothing
        """Release what the layer holds."""


class LayeredBackend:
    """A backend whose calls pass through layers; see `Backend`.

    The chain of each operation is built once, from the layers that it concerns.

    Args:
        backend: executes the operations.
        layers: the layers, outermost first.
    """

    def __init__(self, backend: Backend, layers: Sequence[BackendLayer]) -> None:
        self.backend = backend
        self.layers = tuple(layers)
        self._chains: dict[type[Operation[Any]], _Chain] = {kind: self._chain(kind) for kind in OPERATIONS}

    def _chain(self, kind: type[Operation[object]]) -> _Chain:
        chain: _Chain = self.backend.call
        for layer in reversed(self.layers):
            if layer.concerns(kind):
                chain = cast("_Chain", functools.partial(layer.call, chain))
        return chain

    @property
    def has_conditional_add(self) -> bool:
        """Whether an add itself ignores ids that exist."""
        return self.backend.has_conditional_add

    async def start(self) -> None:
        """Start. Does not wait for Chroma."""
        await self.backend.start()

    async def close(self) -> None:
        """Close the connection to Chroma."""
        for layer in self.layers:
            layer.close()
        await self.backend.close()

    def call(self, operation: Operation[T]) -> Coroutine[Any, Any, T]:
        """Execute an operation."""
        return self._chains[type(operation)](operation)
