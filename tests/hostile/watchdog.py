"""Observations of a service with a watchdog."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx
import msgspec

from tests.support.pages import ROOT
from tests.support.servers import Served, free_port, start_process


class Watched(msgspec.Struct, frozen=True):
    """Observations since the last look.

    Attributes:
        pause_seconds: worst time for which the event loop did not turn.
        busy_seconds: the worst of these times, as CPU time of the loop's thread: other processes do not add to it.
        grown_bytes: peak of the resident memory, above its size at the last look.
    """

    pause_seconds: float
    busy_seconds: float
    grown_bytes: int


def start_watched(folder: Path, environ: Mapping[str, str]) -> Served:
    """Start a service with a watchdog, and wait until it is ready."""
    port = free_port()
    variables = {
        "RAGSTORE_PORT": str(port),
        "RAGSTORE_DATA_PATH": str(folder / "data"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        **environ,
    }
    command = [sys.executable, "-m", "tests.hostile.watched_service"]
    served = start_process(command, f"http://127.0.0.1:{port}", folder / "service.log", variables)
    served.wait_until_ready("/health/ready")
    return served


def watched(http: httpx.Client) -> Watched:
    """The observations since the last look."""
    return msgspec.json.decode(http.get("/watchdog").content, type=Watched)
