"""What the parts of `Client` share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ragstore_client._call import Call

T = TypeVar("T")


class CallSender:
    """Something that can carry out a call."""

    def _send(self, call: Call[T]) -> T:
        raise NotImplementedError
