"""An event loop whose clock does not wait: time passes by the delays that its tasks wait for."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that advances its clock in place of waiting."""

    def __init__(self) -> None:
        self.now = 1000.0
        super().__init__(_VirtualSelector(self))

    def time(self) -> float:
        return self.now


class _VirtualSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("all tasks wait, and nothing will wake them")
        self._loop.now += max(0.0, timeout)
        return super().select(0)


def run_virtually(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine on a virtual clock, and check that it leaves no task behind."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:

        async def run() -> T:
            result = await coroutine
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, left
            return result

        return runner.run(run())
