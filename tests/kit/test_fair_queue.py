"""Queues that are fair between callers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator

import pytest

from ragstore.kit.context import begin_request, current_caller, set_caller
from ragstore.kit.fair_queue import FairQueue, FairSemaphore
from ragstore.kit.time_slices import SLICE_SECONDS, TimeSlices


async def put(queue: FairQueue[str], caller: str, *items: str) -> None:
    """Add items to the queue as a caller."""

    async def as_caller() -> None:
        set_caller(caller)
        for item in items:
            queue.put(item)

    await asyncio.create_task(as_caller())


async def test_callers_take_turns_and_the_items_of_each_keep_their_order() -> None:
    queue: FairQueue[str] = FairQueue()
    await put(queue, "a", "a1", "a2", "a3")
    await put(queue, "b", "b1")
    await put(queue, "c", "c1", "c2")

    taken = []
    while queue:
        head = queue.head()
        taken.append(queue.pop())
        assert taken[-1] == head

    assert taken == ["a1", "b1", "c1", "a2", "c2", "a3"]


async def test_a_removed_item_gets_no_turn() -> None:
    queue: FairQueue[str] = FairQueue()
    remove = queue.put("first")
    queue.put("second")

    assert remove()
    assert not remove()
    assert queue.pop() == "second"
    assert not queue


async def test_a_request_without_a_key_is_a_caller_and_work_in_the_background_is_another_one() -> None:
    async def request() -> str | None:
        begin_request("id")
        return current_caller()

    assert current_caller() is None
    assert await asyncio.create_task(request()) == ""


async def work(semaphore: FairSemaphore, caller: str, order: list[str]) -> None:
    set_caller(caller)
    async with semaphore.slot():
        order.append(caller)
        await asyncio.sleep(0)


async def test_the_slots_go_to_callers_in_turn() -> None:
    semaphore, order = FairSemaphore(1), list[str]()
    callers = [*["busy"] * 60, "quiet"]

    await asyncio.gather(*(asyncio.create_task(work(semaphore, caller, order)) for caller in callers))

    assert order.index("quiet") == 2, "one had the slot, one waited before it"
    assert sorted(order) == sorted(callers)


async def test_a_caller_that_leaves_gives_its_slot_to_the_next_one() -> None:
    semaphore, order = FairSemaphore(1), list[str]()
    await semaphore.acquire()
    leaving = asyncio.create_task(work(semaphore, "leaves", order))
    staying = asyncio.create_task(work(semaphore, "stays", order))
    await asyncio.sleep(0)
    semaphore.release()  # the slot is the first one's, which is cancelled before it runs
    leaving.cancel()

    await staying
    assert order == ["stays"]
    await semaphore.acquire()


async def test_a_slot_is_held_until_the_thread_has_returned_also_if_the_caller_leaves() -> None:
    semaphore, may_return, begun = FairSemaphore(1), threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        may_return.wait(20)

    leaving = asyncio.create_task(semaphore.in_thread(block))
    await asyncio.to_thread(begun.wait, 20)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    next_one = asyncio.create_task(semaphore.acquire())
    await asyncio.sleep(0.05)
    assert not next_one.done()

    may_return.set()
    await next_one


async def test_an_error_in_a_thread_is_the_callers() -> None:
    semaphore = FairSemaphore(1)

    with pytest.raises(ZeroDivisionError):
        await semaphore.in_thread(divmod, 1, 0)
    await semaphore.acquire()


async def test_the_slices_of_long_computations_go_to_callers_in_turn() -> None:
    slices, order = TimeSlices(), list[str]()

    def steps(number: int) -> Generator[None, None, None]:
        for _ in range(number):
            time.sleep(SLICE_SECONDS)
            yield

    async def compute(caller: str, number: int) -> None:
        set_caller(caller)
        await slices.run(steps(number))
        order.append(caller)

    busy = [asyncio.create_task(compute("busy", 3)) for _ in range(10)]
    await asyncio.gather(*busy, asyncio.create_task(compute("quiet", 3)))

    assert order[0] == "quiet"
