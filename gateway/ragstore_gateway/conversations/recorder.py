"""`Recorder`: writes steps in the background, so that a chat does not wait for the database."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from ragstore.kit.background import cancel_all
from ragstore.kit.errors import ServiceError
from ragstore_gateway.conversations import metrics
from ragstore_gateway.conversations.step import Step
from ragstore_gateway.errors import AuditUnavailable

MAX_BATCH: Final = 100
"""Maximum number of steps of one transaction."""

MAX_PENDING: Final = 10_000
MAX_PENDING_CHARACTERS: Final = 32 * 1024 * 1024
"""Limits of the steps that are not written yet. A further one is dropped, logged and counted."""

RETRY_SECONDS: Final = (0.2, 1.0, 3.0)
"""Waits before a failed write is tried again."""

REQUIRED_SECONDS: Final = 5.0
"""Maximum wait of a chat for its entry, if the audit is required."""

CLOSE_SECONDS: Final = 5.0
"""Time for pending steps when the gateway stops."""

_log = structlog.get_logger(__name__)


class StepWriter(Protocol):
    """Where steps are written."""

    async def write(self, steps: Sequence[Step]) -> None:
        """Write steps, all or none."""


@dataclass(frozen=True, slots=True)
class _Pending:
    step: Step
    characters: int
    written: asyncio.Future[bool]


class Recorder:
    """Writes steps in the order in which they are recorded. It works while the block of `running` runs.

    Args:
        writer: where they are written.
        required: whether `record` waits until a step is written.
    """

    def __init__(self, writer: StepWriter, *, required: bool) -> None:
        self._writer = writer
        self._required = required
        self._pending: deque[_Pending] = deque()
        self._characters = 0
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write in the background; at the end, write what is pending, up to a time limit."""
        task = asyncio.create_task(self._work(), name="write-steps")
        try:
            yield
        finally:
            await self.flush(CLOSE_SECONDS)
            await cancel_all([task])
            self._drop_all()

    async def record(self, step: Step) -> None:
        """Record a step. It returns immediately, unless the audit is required.

        Raises:
            AuditUnavailable: the audit is required, and the step cannot be written.
        """
        pending = self._add(step)
        if not self._required:
            return
        try:
            async with asyncio.timeout(REQUIRED_SECONDS):
                written = pending is not None and await asyncio.shield(pending.written)
        except TimeoutError:
            written = False
        if not written:
            raise AuditUnavailable("The audit ledger cannot be written at the moment, and a chat requires it")

    async def flush(self, timeout_seconds: float = REQUIRED_SECONDS) -> None:
        """Wait until all steps that were recorded here are written, or the time is over.

        Args:
            timeout_seconds: maximum wait.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()
        except TimeoutError:
            pass

    def _add(self, step: Step) -> _Pending | None:
        characters = sum(map(len, step.contexts.values()))
        if len(self._pending) >= MAX_PENDING or self._characters + characters > MAX_PENDING_CHARACTERS:
            metrics.traced("dropped")
            _log.warning("step dropped", pending=len(self._pending))
            return None
        pending = _Pending(step, characters, asyncio.get_running_loop().create_future())
        self._pending.append(pending)
        self._characters += characters
        self._idle.clear()
        self._wake.set()
        metrics.PENDING_STEPS.inc()
        return pending

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            while self._pending:
                batch = [self._pending[index] for index in range(min(MAX_BATCH, len(self._pending)))]
                await self._write(batch)
                for pending in batch:
                    self._pending.popleft()
                    self._characters -= pending.characters
                metrics.PENDING_STEPS.dec(len(batch))
            self._wake.clear()
            self._idle.set()

    async def _write(self, batch: Sequence[_Pending]) -> None:
        """Write a batch; what cannot be written is logged and counted, and does not affect the others."""
        error = await self._try(batch)
        if error is None:
            return
        if len(batch) > 1 and not isinstance(error, ServiceError):
            # One of the steps may be the cause.
            for pending in batch:
                await self._write([pending])
            return
        metrics.traced("failed", len(batch))
        _log.error("steps not written", count=len(batch), error=type(error).__name__)
        for pending in batch:
            pending.written.set_result(False)

    async def _try(self, batch: Sequence[_Pending]) -> Exception | None:
        """Write a batch, with retries if the database is unavailable.

        Returns:
            Why it cannot be written; None if it was.
        """
        for wait in (*RETRY_SECONDS, None):
            try:
                await self._writer.write([pending.step for pending in batch])
            except ServiceError as error:
                if wait is None:
                    return error
                await asyncio.sleep(wait)
            except Exception as error:  # noqa: BLE001 - whatever fails here, chats continue
                return error
            else:
                metrics.traced("written", len(batch))
                for pending in batch:
                    pending.written.set_result(True)
                return None
        raise AssertionError

    def _drop_all(self) -> None:
        if self._pending:
            metrics.traced("dropped", len(self._pending))
            metrics.PENDING_STEPS.dec(len(self._pending))
            _log.error("steps dropped", count=len(self._pending))
        for pending in self._pending:
            if not pending.written.done():
                pending.written.set_result(False)
        self._pending.clear()
