"""The budget of bytes in flight: who waits, who gets room, and who loses it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter

from ragstore.kit import byte_budget
from ragstore.kit.byte_budget import (
    FREE_BYTES,
    ByteBudget,
    Share,
    give_back,
    request_shares,
    reserve,
    reserved,
    temporary_copies,
)
from ragstore.kit.container_memory import container_limit_bytes, limit_files
from ragstore.kit.context import set_caller
from ragstore.kit.errors import BodyTooLarge, Overloaded

TIMEOUT_SECONDS = 10.0
KIB = 1024


def create(max_bytes: int, timeout_seconds: float = TIMEOUT_SECONDS) -> ByteBudget:
    return ByteBudget(
        max_bytes, timeout_seconds, Counter("refusals", "Test.", ["reason"], registry=CollectorRegistry())
    )


async def waiting(budget: ByteBudget, size: int) -> tuple[asyncio.Task[None], Share]:
    """A request that waits for a share."""
    share = Share()
    task = asyncio.create_task(budget.take(share, size))
    await asyncio.sleep(0)
    return task, share


async def test_a_share_that_fits_is_given_immediately() -> None:
    budget, share = create(100), Share()

    await budget.take(share, 100)

    assert share.size == 100


async def test_a_body_larger_than_the_budget_is_too_large() -> None:
    with pytest.raises(BodyTooLarge):
        await create(100).take(Share(), 101)


async def test_those_that_wait_get_room_in_their_order() -> None:
    budget, holder = create(100), Share()
    await budget.take(holder, 80)
    (large, _), (small, _) = await waiting(budget, 90), await waiting(budget, 10)
    await asyncio.sleep(0)

    assert [large.done(), small.done()] == [False, False], "a small body does not overtake a large one"
    budget.release(holder)
    await asyncio.gather(large, small)


async def test_without_room_in_time_a_body_is_rejected_and_the_next_one_is_not_held_up() -> None:
    budget, holder = create(100, timeout_seconds=0.5), Share()
    await budget.take(holder, 80)
    large, _ = await waiting(budget, 90)
    await asyncio.sleep(0.25)
    small, _ = await waiting(budget, 10)

    with pytest.raises(Overloaded):
        await large
    await small


async def test_a_caller_that_leaves_while_it_waits_leaves_the_queue() -> None:
    budget, holder = create(100), Share()
    await budget.take(holder, 80)
    large, _ = await waiting(budget, 90)
    small, _ = await waiting(budget, 10)

    large.cancel()

    await small


async def test_all_bytes_come_back() -> None:
    budget = create(100)
    for _ in range(3):
        share = Share()
        await budget.take(share, 60)
        budget.add(share, 60)
        budget.release(share, 30)
        budget.release(share)
    await budget.take(Share(), 100)


async def test_responses_may_exceed_the_budget_and_then_requests_wait() -> None:
    budget, response = create(100), Share()
    await budget.wait_for_room()
    budget.add(response, 150)
    held_up = asyncio.create_task(budget.wait_for_room())
    await asyncio.sleep(0)

    assert not held_up.done()
    budget.release(response, 60)
    await held_up


async def test_a_part_of_a_reservation_is_given_back_and_that_of_a_block_ends_with_it() -> None:
    budget, response = create(1_000 * KIB), Share()

    with request_shares(budget, Share(), response):
        await reserve(600 * KIB)
        give_back(200 * KIB)
        async with reserved(300 * KIB):
            assert response.size == 700 * KIB
        assert response.size == 400 * KIB
        give_back(10_000 * KIB)
        assert response.size == 0

    async with reserved(100 * KIB):
        give_back(100 * KIB)  # outside of a request


def transfer(budget: ByteBudget, lost: list[str]) -> Callable[[str, int, Callable[[], int]], Share]:
    """Starts transfers that note when they lose their share."""

    def start(name: str, size: int, progress: Callable[[], int]) -> Share:
        share = Share()
        budget.add(share, size)

        def evict() -> None:
            lost.append(name)
            budget.release(share)

        share.watch(progress, evict)
        return share

    return start


async def test_the_slowest_transfers_lose_their_shares_and_only_as_many_as_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(byte_budget, "SWEEP_SECONDS", 0.02)
    budget, lost = create(120), list[str]()
    moved = {"slower": 0.0, "slow": 0.0, "fast": 0.0}
    start = transfer(budget, lost)
    for name in moved:
        start(name, 40, lambda name=name: int(moved[name]))  # type: ignore[misc]  # mypy knows no default of a lambda
    task, _ = await waiting(budget, 50)

    while not task.done():
        await asyncio.sleep(0.005)
        moved["fast"] += 1000
        moved["slow"] += 0.01

    assert sorted(lost) == ["slow", "slower"]


async def test_without_others_that_wait_a_transfer_may_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_budget, "SWEEP_SECONDS", 0.01)
    budget, lost = create(100), list[str]()
    transfer(budget, lost)("slow", 90, lambda: 0)
    await budget.take(Share(), 10)
    await asyncio.sleep(0.05)

    assert lost == []


# -- the memory limit ---------------------------------------------------------------------------


def limits(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "1000\n"}, 1000),
        ("0::/\n", {"memory.max": "max\n"}, None),
        ("0::/pod/one\n", {"pod/one/memory.max": "max\n", "pod/memory.max": "700\n"}, 700),
        ("0::/pod/one\n", {"pod/one/memory.max": "600\n", "pod/memory.max": "700\n"}, 600),
        ("4:memory:/docker/x\n0::/\n", {"memory/memory.limit_in_bytes": "500\n"}, 500),
        ("4:cpu,memory:/a\n", {"memory/a/memory.limit_in_bytes": "400\n"}, 400),
        ("4:memory:/a\n", {"memory/a/memory.limit_in_bytes": str(2**63 - 4096)}, None),
        ("", {}, None),
    ],
    ids=["v2", "v2 without", "v2 above", "v2 own", "v1 in a container", "v1 own", "v1 without", "none"],
)
def test_the_memory_limit_is_the_lowest_of_all_control_groups(
    tmp_path: Path, groups: str, files: dict[str, str], limit: int | None
) -> None:
    own = tmp_path / "cgroup"
    own.write_text(groups)

    assert container_limit_bytes(limit_files(limits(tmp_path / "sys", files), own)) == limit


# -- reservations -------------------------------------------------------------------------------


async def test_a_reservation_waits_for_room_and_ends_with_its_request() -> None:
    budget, holder = create(100 * KIB), Share()
    await budget.take(holder, 20 * KIB)

    async def request() -> None:
        with request_shares(budget, Share(), Share()):
            await reserve(90 * KIB)

    making = asyncio.create_task(request())
    await asyncio.sleep(0)
    assert not making.done()
    budget.release(holder)
    await making

    await budget.take(holder, 100 * KIB)


async def test_a_reservation_beyond_the_whole_budget_takes_the_whole_budget() -> None:
    budget, response = create(100 * KIB), Share()

    with request_shares(budget, Share(), response):
        await reserve(1_000 * KIB)
        assert response.size == 100 * KIB
    assert response.size == 0


async def test_a_small_reservation_never_waits() -> None:
    budget = create(100)
    await budget.take(Share(), 100)
    waiter, _ = await waiting(budget, 50)

    with request_shares(budget, Share(), Share()):
        await reserve(FREE_BYTES)
    waiter.cancel()


async def test_reservations_of_a_request_within_another_one_are_of_its_own_budget() -> None:
    outer, inner = Share(), Share()

    with request_shares(create(100 * KIB), Share(), outer):
        with request_shares(create(100 * KIB), Share(), inner):
            await reserve(70 * KIB)
            assert (outer.size, inner.size) == (0, 70 * KIB)
        await reserve(80 * KIB)
        assert outer.size == 80 * KIB


async def test_what_was_reserved_and_is_not_needed_is_given_back() -> None:
    budget, response = create(200 * KIB), Share()

    with request_shares(budget, Share(), response):
        await reserve(150 * KIB)
        give_back(110 * KIB)
        assert response.size == 40 * KIB
        await budget.take(Share(), 160 * KIB)


async def test_concurrent_reservations_of_a_request_add_up() -> None:
    budget, holder, response = create(200 * KIB), Share(), Share()
    await budget.take(holder, 150 * KIB)

    with request_shares(budget, Share(), response):
        both = asyncio.gather(reserve(70 * KIB), reserve(80 * KIB))
        await asyncio.sleep(0)
        budget.release(holder)
        await both
        assert response.size == 150 * KIB
        give_back(70 * KIB)
        assert response.size == 80 * KIB


async def test_work_that_outlives_its_request_takes_no_bytes() -> None:
    """Another caller may wait for it: the task has the context of its first request."""
    budget, may_continue = create(100 * KIB), asyncio.Event()

    async def work() -> None:
        await may_continue.wait()
        await reserve(80 * KIB)
        with temporary_copies() as count:
            count(90 * KIB)
            await budget.take(Share(), 100 * KIB)

    with request_shares(budget, Share(), Share()):
        outliving = asyncio.create_task(work())
        await asyncio.sleep(0)
    may_continue.set()
    await outliving


async def test_a_share_that_is_waited_for_when_its_request_ends_is_never_taken() -> None:
    budget, holder = create(100 * KIB), Share()
    await budget.take(holder, 50 * KIB)

    with request_shares(budget, Share(), Share()):
        outliving = asyncio.create_task(reserve(80 * KIB))
        await asyncio.sleep(0)
    budget.release(holder)
    await outliving

    await budget.take(Share(), 100 * KIB)


async def test_temporary_copies_are_a_part_of_the_reservation_and_count_beyond_it() -> None:
    response = Share()

    with request_shares(create(1_000 * KIB), Share(), response):
        await reserve(100 * KIB)
        with temporary_copies() as count:
            count(60 * KIB)
            assert response.size == 100 * KIB
            with temporary_copies() as other:
                other(60 * KIB)
                assert response.size == 120 * KIB
            assert response.size == 100 * KIB
            count(2_000 * KIB)
            assert response.size == 2_060 * KIB, "they exist already, so that they never wait"
        assert response.size == 100 * KIB


async def test_callers_get_room_in_turn() -> None:
    budget, holder = create(100), Share()
    await budget.take(holder, 100)
    order: list[str] = []

    async def take(caller: str) -> None:
        set_caller(caller)
        share = Share()
        await budget.take(share, 100)
        order.append(caller)
        budget.release(share)

    tasks = [asyncio.create_task(take(caller)) for caller in ("busy", "busy", "busy", "quiet")]
    await asyncio.sleep(0)
    budget.release(holder)
    await asyncio.gather(*tasks)

    assert order == ["busy", "quiet", "busy", "busy"]
