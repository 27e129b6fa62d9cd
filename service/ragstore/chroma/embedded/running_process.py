"""Embedded Chroma's process as its parent sees it: its start and its end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.process import BaseProcess
from typing import Final

import structlog

from ragstore.chroma.embedded.pool import processes_of
from ragstore.chroma.embedded.process import OpenedData
from ragstore.chroma.embedded.process_metrics import STARTS, release_process, watch_process

EXIT_CODE_SECONDS: Final = 0.1
"""Pause before the exit code of an ended process is read again, while the pool's thread reads it, too."""

_log = structlog.get_logger(__name__)


class RunningProcess:
    """The process of a pool, from its start to its end.

    Args:
        pool: the pool, which has started its one process.
        on_end: called when the process has ended and was not released before.
    """

    def __init__(self, pool: ProcessPoolExecutor, on_end: Callable[[], None]) -> None:
        (self._process,) = processes_of(pool)
        self._on_end = on_end
        self._reason = ""
        self._loop = asyncio.get_running_loop()
        # Readable once the process has ended. The descriptor is open for as long as the process object exists.
        self._loop.add_reader(self._process.sentinel, self._ended)
        STARTS.inc()
        watch_process(self.process_id)

    @property
    def process_id(self) -> int:
        """Its id."""
        return self._process.pid or 0

    def kill(self, reason: str) -> None:
        """Kill the process.

        Args:
            reason: why, for the log.
        """
        self._reason = reason
        self._process.kill()

    def release(self) -> None:
        """Stop to watch the process, whose end is requested."""
        release_process(self.process_id)
        if not self._loop.is_closed():
            self._loop.remove_reader(self._process.sentinel)

    def _ended(self) -> None:
        self.release()
        self._log_end()
        self._on_end()

    def _log_end(self, attempts: int = 10) -> None:
        if self._process.exitcode is None and attempts:
            self._loop.call_later(EXIT_CODE_SECONDS, self._log_end, attempts - 1)
            return
        fields: dict[str, object] = {"pid": self.process_id, "exit_code": self._process.exitcode}
        if name := signal_of(self._process):
            fields["signal"] = name
        reason = self._reason or ("killed; out of memory?" if name == "SIGKILL" else "")
        if reason:
            fields["reason"] = reason
        _log.warning("chroma process ended", **fields)


def signal_of(process: BaseProcess) -> str:
    """The name of the signal that ended a process; empty if none did."""
    code = process.exitcode
    if code is None or code >= 0:
        return ""
    try:
        return signal.Signals(-code).name
    except ValueError:
        return str(-code)


def log_opened(opened: Future[OpenedData]) -> None:
    """Log an unclean shutdown of the previous process, and the damage that was found."""
    if opened.cancelled() or opened.exception() is not None:
        return
    data = opened.result()
    if data.was_unclean:
        _log.warning("unclean shutdown", detail="the data was not closed by the process that had it open")
    for found in data.repaired:
        log = _log.error if found.problem else _log.warning
        log(
            "index repaired" if not found.problem else "index damaged",
            collection=found.collection,
            documents=found.documents,
            removed=found.removed_entries or None,
            problem=found.problem or None,
        )
