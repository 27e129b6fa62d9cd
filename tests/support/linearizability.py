"""A linearizability checker for concurrent calls on one document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal


@dataclass(frozen=True)
class Step:
    """One call on one document.

    Attributes:
        kind: the kind of call.
        content: the content that was written or read; None if there was no document.
        done: whether the call changed the document: an add succeeded, a delete deleted it.
        started: time when the call was sent.
        ended: time when its response arrived.
    """

    kind: Literal["add", "upsert", "delete", "get"]
    content: int | None
    done: bool
    started: float
    ended: float

    def after(self, state: int | None) -> tuple[int | None] | None:
        """The content of the document after this step.

        Args:
            state: the content before; None if there was no document.

        Returns:
            A tuple of the content, or None if the step's response is impossible in that state.
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


def is_linearizable(steps: Sequence[Step], final: int | None) -> bool:
    """Whether some sequential order of the steps explains every response and the final content.

    Args:
        steps: calls; one that ended before another one started precedes it.
        final: the content of the document in the end; None if there is no document.
    """

    @cache
    def reachable(remaining: frozenset[int], state: int | None) -> bool:
        if not remaining:
            return state == final
        horizon = min(steps[index].ended for index in remaining)
        for index in remaining:
            if steps[index].started <= horizon:
                after = steps[index].after(state)
                if after is not None and reachable(remaining - {index}, after[0]):
                    return True
        return False

    return reachable(frozenset(range(len(steps))), None)
