"""Whether what concurrent callers were told of one document can have happened in some order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal


@dataclass(frozen=True)
class Step:
    """One call on one document.

    Attributes:
        kind: what was asked.
        content: what was written, or what was read; None for nothing.
        done: whether it changed something: an add was not refused, a delete deleted.
        began: when the call was sent.
        ended: when its answer came.
    """

    kind: Literal["add", "upsert", "delete", "get"]
    content: int | None
    done: bool
    began: float
    ended: float

    def after(self, state: int | None) -> tuple[int | None] | None:
        """What the document holds after this step.

        Args:
            state: what it held before.

        Returns:
            What it holds, or None when the step cannot have been told what it was.
        """
        if self.kind == "get":
            return (state,) if self.content == state else None
        if self.kind == "upsert":
            return (self.content,)
        if self.kind == "add":
            if self.done != (state is None):
                return None
            return (self.content,) if self.done else (state,)
        return (None,) if self.done == (state is not None) else None


def is_some_order(steps: Sequence[Step], final: int | None) -> bool:
    """Whether the steps can have happened one after the other.

    Args:
        steps: calls; one that ended before another began comes before it.
        final: what the document held in the end.

    Returns:
        Whether there is an order that explains every answer and the end.
    """

    @cache
    def reachable(left: frozenset[int], state: int | None) -> bool:
        if not left:
            return state == final
        horizon = min(steps[place].ended for place in left)
        for place in left:
            if steps[place].began <= horizon:
                told = steps[place].after(state)
                if told is not None and reachable(left - {place}, told[0]):
                    return True
        return False

    return reachable(frozenset(range(len(steps))), None)
