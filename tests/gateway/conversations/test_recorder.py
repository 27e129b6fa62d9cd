"""Steps are written in the background: a chat neither waits for the database nor fails with it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from prometheus_client import REGISTRY

from ragstore_gateway.conversations import recorder as recorder_module
from ragstore_gateway.conversations.recorder import Recorder
from ragstore_gateway.conversations.step import Step
from ragstore_gateway.errors import AuditUnavailable, DatabaseUnavailable
from tests.gateway.conversations.factories import CONTEXT, step


class Writer:
    """Keeps steps in a list, and fails as a test says."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.calls = 0
        self.failures = 0
        """Number of further writes that fail because the database is unavailable."""
        self.poison = ""
        """Id of a request whose step cannot be written."""
        self.resume = asyncio.Event()
        self.resume.set()

    async def write(self, steps: Sequence[Step]) -> None:
        """Write steps."""
        self.calls += 1
        await self.resume.wait()
        if self.failures:
            self.failures -= 1
            raise DatabaseUnavailable("The database cannot be used at the moment")
        if self.poison in [each.request_id for each in steps]:
            raise ValueError("poison")
        self.written += [each.request_id for each in steps]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "RETRY_SECONDS", (0.01, 0.01, 0.01))
    monkeypatch.setattr(recorder_module, "REQUIRED_SECONDS", 0.3)
    monkeypatch.setattr(recorder_module, "CLOSE_SECONDS", 0.3)


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("ragstore_gateway_traced_steps_total", {"outcome": outcome}) or 0.0


async def test_a_chat_does_not_wait_for_its_step() -> None:
    writer = Writer()
    writer.resume.clear()
    recorder = Recorder(writer, required=False)
    async with recorder.running():
        async with asyncio.timeout(5):
            for number in range(3):
                await recorder.record(step(number))
        assert writer.written == []
        writer.resume.set()
        await recorder.flush()
        assert writer.written == ["r0", "r1", "r2"]


async def test_steps_that_wait_are_written_together_and_in_order() -> None:
    writer = Writer()
    writer.resume.clear()
    recorder = Recorder(writer, required=False)
    async with recorder.running():
        for number in range(50):
            await recorder.record(step(number))
            await asyncio.sleep(0)
        writer.resume.set()
        await recorder.flush()
    assert writer.written == [f"r{number}" for number in range(50)]
    assert writer.calls <= 2


async def test_a_database_that_is_unavailable_for_a_moment_loses_no_step() -> None:
    writer = Writer()
    writer.failures = 2
    recorder = Recorder(writer, required=False)
    async with recorder.running():
        await recorder.record(step(1))
        await recorder.flush()
    assert writer.written == ["r1"]


async def test_a_step_that_cannot_be_written_is_counted_and_fails_no_chat() -> None:
    writer = Writer()
    writer.failures = 100
    before = counted("failed")
    recorder = Recorder(writer, required=False)
    async with recorder.running():
        await recorder.record(step(1))
        await recorder.flush()
        writer.failures = 0
        await recorder.record(step(2))
        await recorder.flush()
    assert writer.written == ["r2"]
    assert counted("failed") == before + 1


async def test_one_bad_step_does_not_affect_the_others() -> None:
    writer = Writer()
    writer.poison = "r1"
    writer.resume.clear()
    recorder = Recorder(writer, required=False)
    async with recorder.running():
        for number in range(3):
            await recorder.record(step(number))
        writer.resume.set()
        await recorder.flush()
    assert writer.written == ["r0", "r2"]


async def test_with_a_required_audit_a_chat_waits_for_its_step() -> None:
    writer = Writer()
    recorder = Recorder(writer, required=True)
    async with recorder.running():
        await recorder.record(step(1))
        assert writer.written == ["r1"]


@pytest.mark.parametrize("kind", ["failing", "hanging", "poison"])
async def test_with_a_required_audit_a_chat_without_its_step_is_rejected(kind: str) -> None:
    writer = Writer()
    writer.failures = 100 if kind == "failing" else 0
    writer.poison = "r1" if kind == "poison" else ""
    if kind == "hanging":
        writer.resume.clear()
    recorder = Recorder(writer, required=True)
    async with recorder.running():
        with pytest.raises(AuditUnavailable):
            await recorder.record(step(1))
    assert writer.written == []


async def test_pending_steps_are_written_when_the_gateway_stops() -> None:
    writer = Writer()
    recorder = Recorder(writer, required=False)
    async with recorder.running():
        for number in range(5):
            await recorder.record(step(number))
    assert writer.written == [f"r{number}" for number in range(5)]


async def test_a_gateway_stops_although_steps_cannot_be_written() -> None:
    writer = Writer()
    writer.resume.clear()
    before = counted("dropped")
    recorder = Recorder(writer, required=False)
    async with asyncio.timeout(10), recorder.running():
        await recorder.record(step(1))
    assert counted("dropped") == before + 1


async def test_the_queue_is_bounded_in_steps_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer()
    writer.resume.clear()
    recorder = Recorder(writer, required=False)
    async with recorder.running():
        monkeypatch.setattr(recorder_module, "MAX_PENDING", 3)
        for number in range(5):
            await recorder.record(step(number))
        monkeypatch.setattr(recorder_module, "MAX_PENDING", 100)
        monkeypatch.setattr(recorder_module, "MAX_PENDING_CHARACTERS", 4 * len(CONTEXT))
        for number in range(5, 8):
            await recorder.record(step(number))
        writer.resume.set()
        await recorder.flush()
    assert writer.written == ["r0", "r1", "r2", "r5"]
