"""Writes log lines in a thread, so that a slow or blocked reader of the log does not block the service.

The thread also renders the lines: a request does not wait for its own log line. This is more than the standard
library's `QueueHandler` offers: audit lines have room of their own, dropped lines are counted and reported, and lines
that arrive close together are written by one call, which saves a tenth of the processor time of a request.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Final, Literal, TextIO, TypeAlias, get_args

from prometheus_client import Counter

Kind: TypeAlias = Literal["log", "audit"]
"""Events, or audit records."""

Event: TypeAlias = dict[str, object]
"""An event before it is rendered."""

EVENT_CHARACTERS: Final = 256
"""Size of an event besides its texts, as an estimate: its line is not rendered yet."""

MAX_CHARACTERS: Final[dict[Kind, int]] = {"log": 4 * 1024 * 1024, "audit": 16 * 1024 * 1024}
"""Maximum size of waiting lines of each kind. Audit lines have their own, so that no flood of others drops one."""

CLOSE_SECONDS: Final = 5.0
"""Maximum wait for the last lines to be written. A pipe without a reader must not keep the process from ending."""

MAX_LINES: Final = 1000
"""Maximum number of lines in one write."""

GATHER_SECONDS: Final = 0.02
"""How long a line waits for others. Waking this thread for each line would cost the request that wrote it a tenth of a
millisecond and more. A process that is killed loses the lines of that time."""


class LogWriter:
    """Takes lines without blocking, and writes them in order, as fast as they are read.

    A line without room is dropped and counted. Once there is room again, a line reports how many were dropped.

    Args:
        file: destination.
        line_of: renders an event, without the line break; called in the thread.
        on_dropped: called with the number of log lines and of audit lines that were dropped, to log that.
        dropped: counts dropped lines by kind.
    """

    def __init__(
        self,
        file: TextIO,
        line_of: Callable[[Event], str],
        on_dropped: Callable[[int, int], None],
        dropped: Counter,
    ) -> None:
        self._file = file
        self._line_of = line_of
        self._on_dropped = on_dropped
        self._dropped = {kind: dropped.labels(kind) for kind in get_args(Kind)}
        self._lock = threading.Lock()
        self._room = dict(MAX_CHARACTERS)
        self._unreported: dict[Kind, int] = {"log": 0, "audit": 0}
        self._lines: queue.SimpleQueue[tuple[Kind, int, str | Event] | None] = queue.SimpleQueue()
        # Python does not wait for a daemon thread at exit; `close` does, for a limited time.
        self._thread = threading.Thread(target=self._work, daemon=True, name="log-writer")
        self._thread.start()

    def put(self, kind: Kind, line: str | Event) -> None:
        """Take a line, or drop it.

        Args:
            kind: what it is.
            line: the line with its line break, or an event, which must not change any more.
        """
        size = len(line) if isinstance(line, str) else _characters(line)
        with self._lock:
            fits = self._room[kind] >= size
            if fits:
                self._room[kind] -= size
            else:
                self._unreported[kind] += 1
        if fits:
            self._lines.put((kind, size, line))
        else:
            self._dropped[kind].inc()

    def close(self) -> None:
        """Write the lines that wait, for a limited time, and take no more."""
        self._lines.put(None)
        self._thread.join(CLOSE_SECONDS)

    def _work(self) -> None:
        open_ = True
        while open_:
            taken = [self._lines.get()]
            if taken[0] is not None:
                time.sleep(GATHER_SECONDS)
            while len(taken) < MAX_LINES and not self._lines.empty():
                taken.append(self._lines.get())
            lines = [line for line in taken if line is not None]
            open_ = len(lines) == len(taken)
            self._write(lines)
            self._report_dropped()

    def _write(self, lines: list[tuple[Kind, int, str | Event]]) -> None:
        try:
            text = "".join(line if isinstance(line, str) else f"{self._line_of(line)}\n" for _, _, line in lines)
            self._file.write(text)
            self._file.flush()
        except (OSError, ValueError):  # a broken pipe, or a closed file
            for kind, _, _ in lines:
                self._dropped[kind].inc()
        with self._lock:
            for kind, size, _ in lines:
                self._room[kind] += size

    def _report_dropped(self) -> None:
        with self._lock:
            dropped, self._unreported = self._unreported, {"log": 0, "audit": 0}
        if any(dropped.values()):
            self._on_dropped(dropped["log"], dropped["audit"])


class EventLogger:
    """The logger that structlog passes events to.

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
    """A file of log lines, for loggers that render their own.

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
        """Do nothing: lines are written as they come."""


def _characters(event: Event) -> int:
    """Approximate length of an event's line."""
    return EVENT_CHARACTERS + sum(len(value) for value in event.values() if isinstance(value, str))
