"""When a call for vectors has to end."""

from __future__ import annotations

import asyncio

from ragstore.kit.context import current_budget, current_caller


def call_deadline(seconds: float) -> float | None:
    """The end of a call that begins now, in the event loop's time.

    Args:
        seconds: its maximum duration in a request, waits for its turn included. The budget of the request applies, too.

    Returns:
        The end; None for work outside of requests, such as ingestions. Nobody waits for its response, and its turn
        comes when the calls before it have ended, each of which has a limit.
    """
    budget = current_budget()
    if budget is None and current_caller() is None:
        return None
    ends = asyncio.get_running_loop().time() + seconds
    return ends if budget is None else min(ends, budget.ends)
