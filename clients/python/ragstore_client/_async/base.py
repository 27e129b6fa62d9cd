"""The base class of the groups of calls of `AsyncClient`."""

from __future__ import annotations

from typing import Self, TypeVar

from ragstore_client._call import Call
from ragstore_client._options import NO_OPTIONS, CallOptions

T = TypeVar("T")


class CallSender:
    """Base class of the groups of calls; `AsyncClient` implements `_send`."""

    async def _send(self, call: Call[T], options: CallOptions = NO_OPTIONS) -> T:
        raise NotImplementedError

    def _lasting(self, seconds: float, options: CallOptions) -> Self:
        raise NotImplementedError
