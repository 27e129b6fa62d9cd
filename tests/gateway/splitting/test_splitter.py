"""Splitting in processes: the same chunks, within limits of time, of memory and of chunks."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import msgspec
import pytest

from ragstore_gateway.errors import SplittingFailed, SplittingTimeout, TooManyChunks
from ragstore_gateway.extraction.child_limits import NICENESS
from ragstore_gateway.extraction.extracted import Extracted
from ragstore_gateway.splitting.chunk import Chunking
from ragstore_gateway.splitting.splitter_pool import Splitter
from ragstore_gateway.splitting.strategies import chunks_of
from tests.gateway.splitting.handbook import handbook
from tests.gateway.splitting.test_properties import STRATEGIES
from tests.support.hangs import ends

pytestmark = pytest.mark.process

MAX_CHUNKS = 2000
SECONDS = 60.0
MEMORY_BYTES = 512 * 1024 * 1024

HOSTILE = "[" * 60_000
SLOW = Chunking("markdown", 4096, 3584, "tokens")
"""Needs a minute and more for this text."""


def encoded(text: str) -> bytes:
    """A text as the database has it."""
    return msgspec.msgpack.encode(Extracted(text, "text/plain"))


def pids(splitter: Splitter) -> list[int]:
    """The processes of a splitter."""
    return [worker.pid for worker in splitter.workers]


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[Splitter]:
    """A splitter for several tests."""
    splitter = Splitter(SECONDS, MEMORY_BYTES, 1, MAX_CHUNKS)
    async with splitter.running():
        yield splitter


async def test_a_process_makes_the_same_chunks_and_is_kept(shared: Splitter) -> None:
    document = handbook()
    for chunking in (Chunking("layers"), Chunking("markdown", 200, 50, "tokens")):
        spans = await shared.split(msgspec.msgpack.encode(document), chunking)
        assert spans == [chunk.span for chunk in chunks_of(document, chunking)]
    assert await shared.split(encoded(" \n"), Chunking()) == []
    (worker,) = shared.workers
    assert worker.documents == 3


async def test_the_gateway_runs_before_a_process_on_busy_cores(shared: Splitter) -> None:
    await shared.split(encoded("The kettle boils."), Chunking())
    (pid,) = pids(shared)
    assert os.getpriority(os.PRIO_PROCESS, pid) == os.nice(0) + NICENESS


async def test_a_text_with_too_many_chunks_is_not_split_to_its_end(shared: Splitter) -> None:
    for strategy in STRATEGIES:
        with pytest.raises(TooManyChunks, match=f"more than {MAX_CHUNKS} chunks"):
            await shared.split(encoded("# a\n\nb c. " * MAX_CHUNKS), Chunking(strategy, 4, 0))


async def test_texts_are_split_together_by_one_call_and_a_text_with_too_many_chunks_is_left_out(
    shared: Splitter,
) -> None:
    given = ["Tea is brewed. Coffee is not.", "", "# a\n\nb c. " * MAX_CHUNKS, "Water."]
    chunking = Chunking("sentence", 4, 0)
    found = await shared.split_together([encoded(text) for text in given], chunking)
    expected = [[chunk.span for chunk in chunks_of(Extracted(text, "text/plain"), chunking)] for text in given[:2]]
    assert found[:2] == expected
    assert found[2] is None
    assert found[3] == await shared.split(encoded("Water."), chunking)


async def test_a_text_that_takes_too_long_lets_all_be_split_alone(shared: Splitter) -> None:
    shared.timeout_seconds = 0.5
    with ends():
        assert await shared.split_together([encoded("tea"), encoded(HOSTILE)], SLOW) == [None, None]
    shared.timeout_seconds = SECONDS
    assert pids(shared) == []


async def test_a_process_that_takes_too_long_is_killed_and_the_next_text_gets_another_one(shared: Splitter) -> None:
    await shared.split(encoded("tea"), Chunking())
    (killed,) = pids(shared)
    shared.timeout_seconds = 0.5
    with ends(), pytest.raises(SplittingTimeout, match=r"took longer than 0.5 s"):
        await shared.split(encoded(HOSTILE), SLOW)
    shared.timeout_seconds = SECONDS
    assert pids(shared) == []
    with pytest.raises(ProcessLookupError):
        os.kill(killed, 0)
    assert len(await shared.split(encoded("tea"), Chunking())) == 1


async def test_a_process_that_was_killed_meanwhile_is_replaced(shared: Splitter) -> None:
    await shared.split(encoded("tea"), Chunking())
    (worker,) = shared.workers
    os.kill(worker.pid, signal.SIGKILL)
    assert len(await shared.split(encoded("tea"), Chunking())) == 1
    assert pids(shared) != [worker.pid]


async def test_a_text_whose_process_ends_is_rejected_as_one_that_needs_too_much_memory() -> None:
    splitter = Splitter(SECONDS, MEMORY_BYTES, 1, MAX_CHUNKS)
    async with splitter.running():
        split = asyncio.create_task(splitter.split(encoded(HOSTILE), SLOW))
        async with asyncio.timeout(SECONDS):
            while not splitter.workers:  # noqa: ASYNC110  # it has no event
                await asyncio.sleep(0.01)
        # As the kernel does when its memory is exhausted.
        os.kill(pids(splitter)[0], signal.SIGKILL)
        with pytest.raises(SplittingFailed, match=r"bytes of memory"):
            await split
