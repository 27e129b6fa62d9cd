"""Measures what each costly body costs the service: `python -m tests.hostile.measure_bodies`.

Prints a Markdown table with the longest pause of the event loop, and the peak of the memory above its size before.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx

from tests.hostile.bombs import BOMBS, MIB, Bomb, legal, legal_document, others, random_bomb
from tests.hostile.watchdog import start_watched, watched
from tests.support.servers import running, start_chroma

SETTINGS = {
    "RAGSTORE_LOG_LEVEL": "warning",
    "RAGSTORE_REQUEST_TIMEOUT_SECONDS": "300",
    "RAGSTORE_CHROMA_TIMEOUT_SECONDS": "250",
}
"""Chroma may take its time: only the service is measured."""

HEAD = "| body | status | response | time | pause | pause, CPU | peak memory | times the body |"


def measure(client: httpx.Client, bomb: Bomb) -> str:
    """Send a body, and return its row of the table."""
    body = bomb.body()
    client.post("/collections", json={"name": "bombed", "get_or_create": True}).raise_for_status()
    watched(client)
    started = time.perf_counter()
    response = client.request(
        bomb.method, f"/collections/bombed{bomb.path}", content=body, headers={"Content-Type": bomb.media_type}
    )
    seconds = time.perf_counter() - started
    seen = watched(client)
    return (
        f"| {bomb.name}, {len(body) / MIB:.1f} MiB | {response.status_code} | {len(response.content)} B "
        f"| {seconds:.2f} s | {seen.pause_seconds * 1000:.0f} ms | {seen.busy_seconds * 1000:.0f} ms "
        f"| {seen.grown_bytes / MIB:.1f} MiB | {seen.grown_bytes / len(body):.1f} |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the bodies, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--random", type=int, default=16, help="number of random bodies")
    parser.add_argument("--store", choices=["embedded", "remote"], default="embedded")
    parser.add_argument("--only", default="", help="part of the names of the bodies to send")
    options = parser.parse_args(arguments)
    bombs = [
        *BOMBS,
        *legal(16 * MIB),
        *legal_document(7 * MIB),
        *others(16 * MIB),
        *map(random_bomb, range(options.random)),
    ]
    print(HEAD)
    print("|" + " --- |" * (HEAD.count("|") - 1))
    for bomb in bombs:
        if options.only in bomb.name:
            print(_measure_alone(bomb, options.store), flush=True)


def _measure_alone(bomb: Bomb, store: str) -> str:
    """Measure a body with a service of its own: one that has freed memory may take that again, and would not grow."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = dict(SETTINGS)
        if store == "remote":
            settings["RAGSTORE_CHROMA_URL"] = stack.enter_context(running(start_chroma(folder))).url
        served = stack.enter_context(running(start_watched(folder, settings)))
        client = stack.enter_context(httpx.Client(base_url=served.url, timeout=300))
        return measure(client, bomb)


if __name__ == "__main__":
    main()
