"""Lines of the log are written together, in their order."""

from __future__ import annotations

import io

from ragstore.log_writer import LogWriter


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
    writer = LogWriter(file, lambda lines, audit_lines: None)
    lines = [f"line {number}\n" for number in range(200)]
    for line in lines:
        writer.put("log", line)
    writer.close()
    assert file.getvalue() == "".join(lines)
    assert len(file.writes) < len(lines) / 2
