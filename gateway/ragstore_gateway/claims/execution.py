"""`Execution`: what a process does with a run that it has claimed, and `Executions`, all of them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import Any, ClassVar, Final, Generic

import structlog

from ragstore.kit.background import cancel_all
from ragstore_gateway.claims.runs import CANCELLED, INTERRUPTED, STOPPED, Run, RunLost, Runs, RunState
from ragstore_gateway.database.repetition import repeated
from ragstore_gateway.errors import DatabaseUnavailable

RECORD_SECONDS: Final = 600.0
"""How long the end of a run is repeated while the database cannot be used. A run that has done all of its work would
otherwise be interrupted, and one that is repeated would do the work again."""

_log = structlog.get_logger(__name__)


class Execution(ABC, Generic[Run]):
    """Executes one run, and writes its progress and its end.

    Args:
        run: the run, which this process has claimed.
        names: identify the run in the log.
        report_seconds: how often the progress is written, and whether the run has ended elsewhere is read.
    """

    noun: ClassVar[str]
    """The name of a run of this kind in the log."""

    def __init__(self, run: Run, runs: Runs[Run], names: Mapping[str, str], report_seconds: float) -> None:
        self.run = run
        self._runs = runs
        self._names = {"run": run.id, **names}
        self._report_seconds = report_seconds
        self._result: Mapping[str, Any] = {}
        """Further columns, which are written with the end only."""
        self._is_lost = False
        self._is_ended = False
        """Whether `work` has ended the run itself."""
        self._task: asyncio.Task[tuple[RunState, str]] | None = None

    @abstractmethod
    async def work(self) -> tuple[RunState, str]:
        """Do the work. It raises no error but `RunLost`.

        Returns:
            How the run ended, and why it is not complete; empty otherwise.
        """

    @property
    @abstractmethod
    def values(self) -> Mapping[str, Any]:
        """The columns of the run that show its progress."""

    def lose(self) -> None:
        """Stop: the run has ended meanwhile."""
        if self._is_ended:
            # By itself.
            return
        self._is_lost = True
        if self._task is not None:
            self._task.cancel()

    async def execute(self) -> None:
        """Execute the run, and end it. It raises no exception but a cancellation."""
        work = self._task = asyncio.create_task(self.work())
        report = asyncio.create_task(self._report())
        if self._is_lost:
            work.cancel()
        try:
            state, reason = await self._outcome(work)
            with suppress(DatabaseUnavailable):
                if self._is_lost:
                    await self._runs.record(self.run.id, self.values)
                elif not self._is_ended:
                    # If the database cannot be used for longer, the run is given back.
                    values = {**self.values, **self._result}
                    await self._repeated(lambda: self._runs.end(self.run.id, state, reason, values))
        finally:
            report.cancel()
        _log.info(f"{self.noun} ended", **self._names, state=state, reason=reason)

    async def _outcome(self, work: asyncio.Task[tuple[RunState, str]]) -> tuple[RunState, str]:
        try:
            return await work
        except RunLost:
            self._is_lost = True
        except asyncio.CancelledError:
            if not self._is_lost:
                # This process stops.
                await cancel_all([work])
                with suppress(DatabaseUnavailable):
                    await self._runs.end(self.run.id, INTERRUPTED, STOPPED, self.values)
                raise
        return CANCELLED, ""

    async def _repeated(self, work: Callable[[], Awaitable[object]]) -> None:
        """Write something about the end of the run, repeatedly while the database cannot be used.

        Args:
            work: writes it. It may be repeated although it was successful.

        Raises:
            DatabaseUnavailable: it cannot be used for too long.
        """
        await repeated(work, partial(self._warn, f"end of a {self.noun} waits for the database"), RECORD_SECONDS)

    async def _report(self) -> None:
        """Write the progress regularly, and stop when the run has ended elsewhere."""
        while True:
            await asyncio.sleep(self._report_seconds)
            try:
                if not await self._runs.report(self.run.id, self.values):
                    self.lose()
                    return
            except DatabaseUnavailable as error:
                self._warn(f"progress of a {self.noun} not written", error)

    def _warn(self, event: str, error: DatabaseUnavailable) -> None:
        _log.warning(event, **self._names, error=error.cause)


class Executions(Generic[Run]):
    """The runs that this process executes.

    Args:
        runs: the runs of all processes.
    """

    def __init__(self, runs: Runs[Run]) -> None:
        self._runs = runs
        self._running: dict[str, tuple[Execution[Run], asyncio.Task[None]]] = {}

    def __len__(self) -> int:
        return len(self._running)

    def start(self, execution: Execution[Run], context: Context | None = None) -> None:
        """Execute a run in the background.

        Args:
            context: the variables of its task; a copy of the caller's by default.
        """
        run_id = execution.run.id
        task = asyncio.get_running_loop().create_task(execution.execute(), context=context)
        self._running[run_id] = execution, task

        def ended(_: asyncio.Task[None]) -> None:
            # A task that is cancelled before its first step runs none of its code.
            self._runs.claimed.discard(run_id)
            del self._running[run_id]

        task.add_done_callback(ended)

    def lose(self, run_id: str) -> None:
        """Stop the execution of a run that has ended, if this process executes it."""
        if run_id in self._running:
            self._running[run_id][0].lose()

    async def stop(self) -> None:
        """Interrupt all runs of this process."""
        await cancel_all([task for _, task in self._running.values()])
