"""Lines of a service's log, by their fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.keyed_services import eventually


def log_lines(file: Path, event: str, **fields: object) -> list[dict[str, Any]]:
    """The lines of an event so far that have some fields.

    Args:
        file: the log.
        event: name of the event.
        fields: values of fields.
    """
    lines = (json.loads(line) for line in file.read_text().splitlines() if line.startswith("{"))
    return [line for line in lines if line["event"] == event and fields.items() <= line.items()]


def log_line(file: Path, event: str, **fields: object) -> dict[str, Any]:
    """The one line of an event that has some fields, which a thread of the service writes soon.

    Args:
        file: the log.
        event: name of the event.
        fields: values of fields.
    """
    found: list[dict[str, Any]] = eventually(lambda: log_lines(file, event, **fields))
    assert len(found) == 1, found
    return found[0]
