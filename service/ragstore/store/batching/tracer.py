"""Following callers through a line, for traces: who asks, and who leaves together.

A merged call works for several requests at once, and none of their contexts is its own. A follower takes note of each
caller where it joins, and stands around what then happens for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol, TypeAlias

Kind: TypeAlias = Literal["write", "query"]
"""What a line waits for."""


class BatchTracer(Protocol):
    """Follows callers."""

    def caller(self) -> object:
        """Who asks now; the follower alone knows what it is."""

    def together(
        self, kind: Kind, collection: str, callers: Sequence[object], count: int
    ) -> AbstractContextManager[object]:
        """Stand around a call that is made for several callers.

        Args:
            kind: what they wait for.
            collection: the collection's name.
            callers: what `caller` gave for each of them, in their order; at least one.
            count: documents or query vectors in the call.

        Returns:
            A context for the call.
        """


class NullBatchTracer:
    """Follows nobody."""

    def caller(self) -> object:
        """Nobody."""
        return None

    def together(
        self, kind: Kind, collection: str, callers: Sequence[object], count: int
    ) -> AbstractContextManager[object]:
        """Nothing around the call."""
        return nullcontext()
