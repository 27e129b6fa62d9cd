"""Sends each route of a gateway of 1 GiB its largest legal requests: `python -m tests.hostile.largest_campaign`.

Prints a Markdown table: the responses, the longest waits of another caller, and the memory. Without arguments, each
request is sent alone and 80 at a time, and the responses are read, read slowly, and not read.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from tests.hostile.bursts import RawRequest, Reading, burst
from tests.hostile.largest_requests import CHEAP, LARGE, VARIANTS, Make
from tests.hostile.limited_gateway import MIB, LimitedGateway, limited_gateway

READINGS: Final[tuple[Reading, ...]] = ("read", "slow", "unread")
TOGETHER: Final = 80
MAX_LIVE_SECONDS: Final = 5.0
"""Maximum wait of another caller for `GET /health/live`: the time limit of the liveness probe in k8s/gateway."""

HEAD: Final = "| request | number | reading | responses | others, live | others, question | their responses | memory |"


@dataclass(frozen=True)
class Row:
    """Observations while requests were sent.

    Attributes:
        name: the requests.
        number: their number.
        reading: how their responses were read.
        statuses: how often each status came.
        live_seconds: longest wait of another caller for `GET /health/live`.
        question_seconds: longest wait of another caller for a question.
        questions: how often each status was the response to a question.
        memory_bytes: peak of the memory, child processes included.
        kills: number of child processes that were killed for their memory.
        survived: whether the gateway was not killed, and responds.
    """

    name: str
    number: int
    reading: Reading
    statuses: Counter[str]
    live_seconds: float
    question_seconds: float
    questions: dict[str, int]
    memory_bytes: int
    kills: int
    survived: bool

    def __str__(self) -> str:
        statuses = ", ".join(f"{number} of {status}" for status, number in sorted(self.statuses.items()))
        questions = ", ".join(f"{number} of {status}" for status, number in sorted(self.questions.items()))
        return (
            f"| {self.name} | {self.number} | {self.reading} | {statuses} | {self.live_seconds * 1000:.0f} ms "
            f"| {self.question_seconds * 1000:.0f} ms | {questions} | {self.memory_bytes // MIB} MiB"
            f"{f', {self.kills} children killed' if self.kills else ''}{'' if self.survived else ', KILLED'} |"
        )


def sent(gateway: LimitedGateway, name: str, requests: Sequence[RawRequest], reading: Reading, seconds: float) -> Row:
    """Send requests, and return what was seen."""
    gateway.other.waits()
    gateway.limit.peak_bytes, kills = 0, gateway.limit.kills
    statuses = asyncio.run(burst(gateway.served.url, gateway.key, requests, reading, seconds))
    survived = responds(gateway)
    waits = gateway.other.waits()
    return Row(
        name,
        len(requests),
        reading,
        statuses,
        waits.live_seconds,
        waits.question_seconds,
        waits.statuses,
        gateway.limit.peak_bytes,
        gateway.limit.kills - kills,
        survived,
    )


def responds(gateway: LimitedGateway) -> bool:
    """Whether the gateway was not killed, and responds."""
    if gateway.served.process.poll() is not None:
        return False
    try:
        return httpx.get(f"{gateway.served.url}/health/live", timeout=60).is_success
    except httpx.HTTPError:
        return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign, with a gateway of its own for each route whose requests are large."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of the names of the requests to send")
    parser.add_argument("--seconds", type=float, default=15.0, help="time of each burst")
    parser.add_argument("--together", type=int, default=TOGETHER, help="number of requests of a burst")
    options = parser.parse_args(arguments)
    print(HEAD)
    print("|" + " --- |" * (HEAD.count("|") - 1))
    rows: list[Row] = []
    chosen = {name: make for name, make in {**LARGE, **VARIANTS}.items() if options.only in name}
    for name, make in chosen.items():
        rows += _printed(options, {name: make})
    cheap = {name: make for name, make in CHEAP.items() if options.only in name}
    if cheap:
        rows += _printed(options, cheap)
    return 1 if any(not row.survived or row.live_seconds > MAX_LIVE_SECONDS for row in rows) else 0


def _printed(options: argparse.Namespace, makes: Mapping[str, Make]) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, limited_gateway(Path(folder)) as gateway:
        for name, make in makes.items():
            request = make(gateway)
            for number in (1, options.together):
                for reading in READINGS:
                    row = sent(gateway, name, [request] * number, reading, options.seconds)
                    print(row, flush=True)
                    rows.append(row)
                    if not row.survived:
                        return rows
    return rows


if __name__ == "__main__":
    sys.exit(main())
