"""Send load with wrk, a compiled load generator: one written in Python would use more CPU time than the service."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_name("load.lua")


@dataclass(frozen=True)
class Work:
    """Requests to send, and their target.

    Attributes:
        url: the target.
        bodies: file of request bodies, one per line.
        method: HTTP method.
        clients: number of concurrent requests.
        key: sent as a bearer token; empty for none.
    """

    url: str
    bodies: Path
    method: str
    clients: int
    key: str = ""


@dataclass(frozen=True)
class Measured:
    """The result of a measurement.

    Attributes:
        rate: responses per second.
        p50_ms: median response time in milliseconds.
        p99_ms: 99th percentile of the response time in milliseconds.
        failures: number of unsuccessful responses, and of requests without a response.
    """

    rate: float
    p50_ms: float
    p99_ms: float
    failures: int


def load(work: Work, seconds: float) -> Measured:
    """Send requests for a given time.

    Args:
        work: the requests to send.
        seconds: duration.

    Returns:
        The rate, the median response time and the failures.
    """
    run = subprocess.run(
        [
            *("wrk", "--threads", "1", "--connections", str(work.clients), "--duration", f"{seconds:g}s"),
            *("--timeout", "30s", "--script", str(SCRIPT), work.url, "--", str(work.bodies), work.method),
            *([work.key] if work.key else []),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    summary = json.loads(run.stdout.strip().splitlines()[-1])
    return Measured(summary["requests"] / summary["seconds"], summary["p50_ms"], summary["p99_ms"], summary["failures"])
