"""Long computations on the event loop run in slices, and what waits for a long step runs before the next one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator

import pytest

from ragstore.kit.time_slices import (
    LARGE_BYTES,
    SLICE_SECONDS,
    THREAD_SLICE_SECONDS,
    TimeSlices,
    rest_if_large,
    run_in_thread,
)

TURNS = 8
"""Turns of the event loop that a small request takes."""


async def test_a_request_that_needs_several_turns_waits_for_one_long_step_at_most() -> None:
    steps = 0

    def computation() -> Generator[None, None, None]:
        nonlocal steps
        for _ in range(20):
            ends = time.perf_counter() + 3 * SLICE_SECONDS
            while time.perf_counter() < ends:
                pass
            steps += 1
            yield

    running = asyncio.create_task(TimeSlices().run(computation()))
    waits = []
    for _ in range(5):
        begun = steps
        for _ in range(TURNS):
            await asyncio.sleep(0)
        waits.append(steps - begun)
    await running

    assert max(waits) <= 1


async def test_short_steps_share_a_slice() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def computation() -> Generator[None, None, str]:
        for _ in range(1000):
            yield
        return "result"

    counting = asyncio.create_task(count())
    assert await TimeSlices().run(computation()) == "result"
    counting.cancel()
    assert turns < 100


async def test_only_a_large_step_is_followed_by_a_rest() -> None:
    turns: list[str] = []
    asyncio.get_running_loop().call_soon(turns.append, "other")
    await rest_if_large(LARGE_BYTES)
    assert turns == []
    await rest_if_large(LARGE_BYTES + 1)
    assert turns == ["other"]


async def test_a_computation_in_a_thread_returns_its_result() -> None:
    def computation() -> Generator[None, None, int]:
        for _ in range(1000):
            yield
        return 7

    assert await run_in_thread(computation()) == 7


async def test_the_error_of_a_computation_in_a_thread_is_raised() -> None:
    def computation() -> Generator[None, None, int]:
        yield
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_in_thread(computation())


async def test_a_cancelled_computation_in_a_thread_ends_after_its_step() -> None:
    inside, step_may_end = threading.Event(), threading.Event()
    steps: list[str] = []

    def computation() -> Generator[None, None, None]:
        while True:
            inside.set()
            step_may_end.wait()
            steps.append("ended")
            time.sleep(THREAD_SLICE_SECONDS)
            yield

    running = asyncio.create_task(run_in_thread(computation()))
    await asyncio.to_thread(inside.wait)
    running.cancel()
    await asyncio.sleep(0)
    assert not running.done()
    step_may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert steps == ["ended"]
