# Generated from _async/base.py by scripts/generate_sync_client.py: do not edit.
"""The base class of the groups of calls of `Client`."""

from __future__ import annotations

from typing import Self, TypeVar

from ragstore_client._call import Call
from ragstore_client._options import NO_OPTIONS, CallOptions

T = TypeVar("T")


class CallSender:
    """Base class of the groups of calls; `Client` implements `_send`."""

    def _send(self, call: Call[T], options: CallOptions = NO_OPTIONS) -> T:
        raise NotImplementedError

    def _lasting(self, seconds: float, options: CallOptions) -> Self:
        raise NotImplementedError
