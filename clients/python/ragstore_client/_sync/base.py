# Generated from _async/base.py by scripts/generate_sync_client.py: do not edit.
"""The base class of the groups of calls of `Client`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ragstore_client._call import Call

T = TypeVar("T")


class CallSender:
    """Base class of the groups of calls; `Client` implements `_send`."""

    def _send(self, call: Call[T]) -> T:
        raise NotImplementedError
