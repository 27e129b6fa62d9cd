"""Loads an address with wrk, a compiled load generator: one written in Python costs more than the service does."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_name("load.lua")


@dataclass(frozen=True)
class Work:
    """What to send where.

    Attributes:
        url: the address.
        bodies: file of request bodies, one a line.
        method: HTTP method.
        callers: requests under way at once.
    """

    url: str
    bodies: Path
    method: str
    callers: int


@dataclass(frozen=True)
class Measured:
    """What came of it.

    Attributes:
        rate: answers a second.
        p50_ms: median time of an answer, in milliseconds.
        failures: answers that were no success, and requests without one.
    """

    rate: float
    p50_ms: float
    failures: int


def load(work: Work, seconds: float) -> Measured:
    """Send for a while.

    Args:
        work: what to send where.
        seconds: how long.

    Returns:
        What came of it.
    """
    run = subprocess.run(
        [
            *("wrk", "--threads", "1", "--connections", str(work.callers), "--duration", f"{seconds:g}s"),
            *("--timeout", "30s", "--script", str(SCRIPT), work.url, "--", str(work.bodies), work.method),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    told = json.loads(run.stdout.strip().splitlines()[-1])
    return Measured(told["requests"] / told["seconds"], told["p50_ms"], told["failures"])
