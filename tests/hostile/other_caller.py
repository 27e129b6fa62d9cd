"""Another caller of a gateway, in a process of its own: `python -m tests.hostile.other_caller URL KEY`.

It sends `GET /health/live` and a small question to embed, one after the other, without an end. For each line of its
input it prints the longest waits since the line before, as JSON.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import httpx
import msgspec

from tests.support.pages import ROOT

PAUSE_SECONDS = 0.02
TIMEOUT_SECONDS = 60.0


class Waits(msgspec.Struct):
    """The longest waits of the caller.

    Attributes:
        live_seconds: for `GET /health/live`.
        question_seconds: for a question.
        statuses: how often each status was the response to a question; `lost` without a response.
    """

    live_seconds: float = 0.0
    question_seconds: float = 0.0
    statuses: dict[str, int] = msgspec.field(default_factory=dict)


class OtherCaller:
    """A running process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def waits(self) -> Waits:
        """The longest waits since the last call, including requests in progress."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=Waits)


@contextmanager
def other_caller(url: str, key: str) -> Iterator[OtherCaller]:
    """Run the caller while the block runs.

    Args:
        url: address of the gateway.
    """
    command = [sys.executable, "-m", "tests.hostile.other_caller", url, key]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        try:
            yield OtherCaller(process)
        finally:
            process.kill()


class _Caller:
    def __init__(self, url: str, key: str) -> None:
        self._http = httpx.Client(base_url=url, headers={"X-API-Key": key}, timeout=TIMEOUT_SECONDS)
        self._lock = threading.Lock()
        self._waits = {"live": 0.0, "question": 0.0}
        self._statuses: Counter[str] = Counter()
        self._running: tuple[str, float] = ("live", time.monotonic())

    def run(self) -> None:
        for number in count():
            self._timed("live", "GET", "/health/live")
            question = {"inputs": [f"When was boiler {number} serviced?"], "kind": "query"}
            status = self._timed("question", "POST", "/embed", question)
            with self._lock:
                self._statuses[status] += 1
            time.sleep(PAUSE_SECONDS)

    def _timed(self, name: str, method: str, path: str, body: object = None) -> str:
        started = time.monotonic()
        self._running = (name, started)
        try:
            status = str(self._http.request(method, path, json=body).status_code)
        except httpx.HTTPError:
            status = "lost"
            time.sleep(PAUSE_SECONDS)
        with self._lock:
            self._waits[name] = max(self._waits[name], time.monotonic() - started)
        return status

    def taken(self) -> Waits:
        name, started = self._running
        with self._lock:
            self._waits[name] = max(self._waits[name], time.monotonic() - started)
            found = Waits(self._waits["live"], self._waits["question"], dict(self._statuses))
            self._waits = {"live": 0.0, "question": 0.0}
            self._statuses.clear()
        return found


def main() -> None:
    """Call until the input ends."""
    caller = _Caller(sys.argv[1], sys.argv[2])
    threading.Thread(target=caller.run, daemon=True).start()
    for _ in sys.stdin:
        sys.stdout.write(msgspec.json.encode(caller.taken()).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
