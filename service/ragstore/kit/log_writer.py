"""Writes log lines from a thread of its own: whoever reads the log slowly, or not at all, does not stop the service.

The lines are made there, too, from what happened: a request does not wait for its own line.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Final, Literal, TextIO, TypeAlias, get_args

from prometheus_client import Counter

Kind: TypeAlias = Literal["log", "audit"]
"""What is written: what happens, or who did it."""

Event: TypeAlias = dict[str, object]
"""What happened, before it is a line."""

EVENT_CHARACTERS: Final = 256
"""What an event counts for beside its texts, since its line is not made yet."""

MAX_CHARACTERS: Final[dict[Kind, int]] = {"log": 4 * 1024 * 1024, "audit": 16 * 1024 * 1024}
"""Most characters of each kind that wait. Audit lines have room of their own, so that no flood of others costs one."""

CLOSE_SECONDS: Final = 5.0
"""Longest wait for the last lines to be written. A pipe that nobody reads must not keep the process from ending."""

LINES_AT_ONCE: Final = 1000
"""Most lines in one write."""

GATHER_SECONDS: Final = 0.02
"""How long a line waits for others. To wake this thread for each would cost the request that wrote it a tenth of a
millisecond and more; a process that is killed loses the lines of that time."""

DROPPED: Final = Counter(
    "ragstore_log_lines_dropped_total", "Log lines dropped because nobody read the log, by their kind.", ["kind"]
)
_DROPPED: Final = {kind: DROPPED.labels(kind) for kind in get_args(Kind)}


class LogWriter:
    """Takes lines at once, and writes them in their order, as fast as they are read.

    A line that finds no room is dropped and counted; once there is room again, a line tells how many were.

    Args:
        file: where they go.
        line_of: makes an event a line, without its end; called in the thread.
        told: called with the number of log lines and of audit lines that were dropped, to write a line about it.
    """

    def __init__(self, file: TextIO, line_of: Callable[[Event], str], told: Callable[[int, int], None]) -> None:
        self._file = file
        self._line_of = line_of
        self._told = told
        self._lock = threading.Lock()
        self._room = dict(MAX_CHARACTERS)
        self._lost: dict[Kind, int] = {"log": 0, "audit": 0}
        self._lines: queue.SimpleQueue[tuple[Kind, int, str | Event] | None] = queue.SimpleQueue()
        # A daemon: Python waits for no such thread when it ends. `close` does, for so long.
        self._thread = threading.Thread(target=self._work, daemon=True, name="log-writer")
        self._thread.start()

    def put(self, kind: Kind, line: str | Event) -> None:
        """Take a line, or drop it.

        Args:
            kind: what it is.
            line: the line, with its end, or what it is to tell. An event must not change any more.
        """
        size = len(line) if isinstance(line, str) else _characters(line)
        with self._lock:
            if self._room[kind] < size:
                self._lost[kind] += 1
                dropped = True
            else:
                self._room[kind] -= size
                dropped = False
        if dropped:
            _DROPPED[kind].inc()
        else:
            self._lines.put((kind, size, line))

    def close(self) -> None:
        """Write what waits, if that is done soon, and take no more."""
        self._lines.put(None)
        self._thread.join(CLOSE_SECONDS)

    def _work(self) -> None:
        open_ = True
        while open_:
            taken = [self._lines.get()]
            if taken[0] is not None:
                time.sleep(GATHER_SECONDS)
            while len(taken) < LINES_AT_ONCE and not self._lines.empty():
                taken.append(self._lines.get())
            lines = [line for line in taken if line is not None]
            open_ = len(lines) == len(taken)
            self._write(lines)
            self._tell()

    def _write(self, lines: list[tuple[Kind, int, str | Event]]) -> None:
        try:
            text = "".join(line if isinstance(line, str) else f"{self._line_of(line)}\n" for _, _, line in lines)
            self._file.write(text)
            self._file.flush()
        except (OSError, ValueError):  # nobody reads any more, or it was closed
            for kind, _, _ in lines:
                _DROPPED[kind].inc()
        with self._lock:
            for kind, size, _ in lines:
                self._room[kind] += size

    def _tell(self) -> None:
        with self._lock:
            lost, self._lost = self._lost, {"log": 0, "audit": 0}
        if any(lost.values()):
            self._told(lost["log"], lost["audit"])


class EventLogger:
    """What structlog hands events to.

    Args:
        writer: writes them.
        kind: what they are.
    """

    def __init__(self, writer: LogWriter, kind: Kind) -> None:
        self._writer = writer
        self._kind: Kind = kind

    def msg(self, **event: object) -> None:
        """Take an event."""
        self._writer.put(self._kind, event)

    debug = info = warning = error = critical = msg


class LineFile:
    """A file of log lines, for loggers that make their own.

    Args:
        writer: writes them.
    """

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer

    def write(self, text: str) -> int:
        """Take a line."""
        self._writer.put("log", text)
        return len(text)

    def flush(self) -> None:
        """Nothing: lines are written as they come."""


def _characters(event: Event) -> int:
    """About how long an event's line is."""
    return EVENT_CHARACTERS + sum(len(value) for value in event.values() if isinstance(value, str))
