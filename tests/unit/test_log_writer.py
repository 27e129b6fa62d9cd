"""Lines of the log are written together, in their order."""

from __future__ import annotations

import io
import threading

from ragstore.kit.log_writer import Event, LogWriter
from ragstore.kit.metrics import dropped_lines


class Noting(io.StringIO):
    """A file that notes each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str, /) -> int:
        self.writes.append(text)
        return super().write(text)


def test_lines_that_come_at_the_same_time_are_written_at_once_in_their_order() -> None:
    file = Noting()
    writer = LogWriter(
        file, lambda event: f"event {event['number']}", lambda lines, audit_lines: None, dropped_lines("unit")
    )
    for number in range(100):
        writer.put("log", f"line {number}\n")
        writer.put("audit", {"number": number})
    writer.close()
    assert file.getvalue() == "".join(f"line {number}\nevent {number}\n" for number in range(100))
    assert len(file.writes) < 100


def test_lines_are_made_in_the_writer_s_own_thread() -> None:
    makers: list[str] = []

    def line_of(event: Event) -> str:
        makers.append(threading.current_thread().name)
        return str(event["event"])

    writer = LogWriter(io.StringIO(), line_of, lambda lines, audit_lines: None, dropped_lines("unit"))
    writer.put("log", {"event": "request"})
    writer.close()
    assert makers == ["log-writer"]
