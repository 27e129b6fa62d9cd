"""The `Backend` protocol: what ragstore needs of Chroma."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from ragstore.chroma.operations import Operation

T = TypeVar("T")


class Backend(Protocol):
    """Executes operations on Chroma.

    A backend does what Chroma does, and no more: `ChromaStore` implements the contract on top of it. All backends,
    embedded and remote, raise ragstore's errors, never Chroma's.
    """

    @property
    def has_conditional_add(self) -> bool:
        """Whether an add itself ignores ids that exist. Where it does not, callers must look them up first."""

    async def start(self) -> None:
        """Start. Does not wait for Chroma."""

    async def close(self) -> None:
        """Close the connection to Chroma."""

    def call(self, operation: Operation[T]) -> Coroutine[Any, Any, T]:
        """Execute an operation.

        Returns:
            Its result.

        Raises:
            StaleCollectionId: no collection has the operation's collection id.
            ServiceError: the operation failed.
        """
