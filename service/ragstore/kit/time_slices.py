"""Long computations on the event loop, in slices, so that other requests wait for a slice and not for the whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import Final, TypeVar

from ragstore.kit.fair_queue import FairSemaphore

T = TypeVar("T")

SLICE_SECONDS: Final = 0.005
"""Length of a slice, after which the computation waits for the event loop. One step may make it longer."""

THREAD_SLICE_SECONDS: Final = 0.05
"""Length of a slice in a thread, after which a computation can be cancelled. One step may make it longer."""

REST_SECONDS: Final = 0.002
"""Pause after a step that is longer than a slice. A request that waited is read, processed and sent in several turns of
the event loop. With `sleep(0)` the next long step would begin between them, so that such a request waited for two."""

LARGE_BYTES: Final = 1024 * 1024
"""Number of bytes whose encoding or decoding is a long step: 1 MiB takes 1 to 2 ms."""


async def rest() -> None:
    """Let requests that waited for a long step of a computation run before the next step."""
    await asyncio.sleep(REST_SECONDS)


async def rest_if_large(size: int) -> None:
    """Rest after a step that read or wrote much.

    Args:
        size: number of bytes.
    """
    if size > LARGE_BYTES:
        await rest()


class TimeSlices:
    """Runs computations in slices. Callers, and the computations of each, take turns: there is one slice at a time."""

    def __init__(self) -> None:
        self._turn = FairSemaphore(1)

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Run a computation.

        Args:
            steps: the computation. It yields where it can be interrupted.

        Returns:
            Its result.
        """
        while True:
            async with self._turn.slot():
                ends = time.perf_counter() + SLICE_SECONDS
                try:
                    while (now := time.perf_counter()) < ends:
                        next(steps)
                except StopIteration as stop:
                    result: T = stop.value
                    return result
                await (rest() if now > ends + SLICE_SECONDS else asyncio.sleep(0))


async def run_in_thread(steps: Generator[None, None, T]) -> T:
    """Run a computation in a thread, in slices. A caller that is cancelled waits for the slice in progress only.

    Args:
        steps: the computation. It yields where it can be interrupted, and leaves Python's lock to others most of the
            time, as numpy does.

    Returns:
        Its result.
    """
    while True:
        slice_ = asyncio.ensure_future(asyncio.to_thread(_advance, steps))
        try:
            ended = await asyncio.shield(slice_)
        except asyncio.CancelledError:
            # Until then, it holds memory that the caller would give back.
            await asyncio.wait([slice_])
            raise
        if ended is not None:
            return ended[0]


def _advance(steps: Generator[None, None, T]) -> tuple[T] | None:
    """Continue a computation for a slice. Its result in a tuple; None if it has not ended."""
    ends = time.perf_counter() + THREAD_SLICE_SECONDS
    try:
        while time.perf_counter() < ends:
            next(steps)
    except StopIteration as stop:
        return (stop.value,)
    return None


def run_whole(steps: Generator[None, None, T]) -> T:
    """Run a short computation without interruptions."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result
