"""The base class of the groups of calls of `AsyncClient`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ragstore_client._call import Call

T = TypeVar("T")


class CallSender:
    """Base class of the groups of calls; `AsyncClient` implements `_send`."""

    async def _send(self, call: Call[T]) -> T:
        raise NotImplementedError
