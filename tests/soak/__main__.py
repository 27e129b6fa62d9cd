"""A soak: a mixed load with faults, after which the service holds what it held, and every document is as it was told.

`make soak SOAK="--minutes 30 --store remote"` runs this. The load comes in rounds; the first two are the warm-up.
After each the load stops, everything that was written is read and compared with what its writers were told; then, in
quiet, the service's memory, open files and threads are looked at. The exit code is 1 when something is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from tests.soak.abusive_callers import BUDGET_SECONDS, MAX_BODY, RudeCaller
from tests.soak.faults import Setting, setting, strike
from tests.soak.journal import Books
from tests.soak.load import COLLECTIONS, LARGE, SCRATCH, Caller, Told
from tests.soak.resources import MOST_GROWTH_MIB, MOST_SLOPE_MIB, Sample, open_files, sample, slope, verdicts
from tests.support.ledger import TIMEOUT_SECONDS, all_documents, wait_for_writes, wait_until
from tests.support.servers import Served, running, start_service

CALLERS: Final = 6
CHROMA_SECONDS: Final = 2.0
"""The service's longest wait for Chroma; also how long a write that failed may still happen."""

SETTLE_SECONDS: Final = 45.0
"""How long open files and threads may take to settle: connections to Chroma are kept for 15 to 30 s."""

WARM_UP_ROUNDS: Final = 2
"""Rounds before the baseline, in which the heap grows to what the load takes; none in a short run."""

QUIET_SECONDS: Final = 7.0
"""Quiet before the baseline, in which the service closes what callers left open; it gives each 5 s."""

LEAST_MINUTES: Final = 5.0
"""In a shorter run memory is told and not judged, since the heap has not settled, and kept connections are cut."""

ENVIRON: Final = {
    "RAGSTORE_REQUEST_TIMEOUT_SECONDS": str(BUDGET_SECONDS),
    "RAGSTORE_CHROMA_TIMEOUT_SECONDS": str(CHROMA_SECONDS),
    "RAGSTORE_MAX_BODY_BYTES": str(MAX_BODY),
    "RAGSTORE_MAX_REQUESTS": "64",
}


class Soak:
    """One run over one store.

    Args:
        service: the service.
        chroma: its Chroma.
        round_seconds: how long the load lasts before it is looked what it left.
        short: whether to cut connections to Chroma that are kept unused, rather than to wait for that.
    """

    def __init__(self, service: Served, chroma: Setting, round_seconds: float, *, short: bool) -> None:
        self._service = service
        self._chroma = chroma
        self._round_seconds = round_seconds
        self._short = short
        self._callers: list[Caller] = []
        self._loaded = 0.0
        self.books = Books()
        self.told = Told()
        self.samples: list[Sample] = []
        self.chroma_samples: list[Sample] = []
        self.files: list[str] = []

    async def run(self, seconds: float) -> None:
        """Warm up, take the baseline, and load the service for a while.

        Args:
            seconds: how long, the warm-up not counted.
        """
        await self._prepare()
        self._callers = [Caller(number, self.books, self.told) for number in range(CALLERS)]
        for _ in range(0 if self._short else WARM_UP_ROUNDS):
            await self._round()
        self._chroma.rest()
        await asyncio.sleep(QUIET_SECONDS)
        self._loaded = 0.0
        self.samples.append(sample(self._service.process.pid))
        self.files = open_files(self._service.process.pid)
        while self._loaded < seconds:
            await self._round()
            await self._settle()

    async def _prepare(self) -> None:
        """Make the collections, and a page that no socket holds."""
        async with httpx.AsyncClient(base_url=self._service.url, timeout=TIMEOUT_SECONDS) as client:
            for name in (*COLLECTIONS, LARGE):
                (await client.post("/collections", json={"name": name, "distance": "l2"})).raise_for_status()
            for number in range(40):
                one = {"id": str(number), "text": "", "embedding": [1, 1], "metadata": {"much": "x" * 250_000}}
                written = await client.put(f"/collections/{LARGE}/documents", json={"documents": [one]})
                written.raise_for_status()

    async def _round(self) -> None:
        """Load with faults; then compare what is there with what was told."""
        stopped = asyncio.Event()
        started = time.monotonic()
        rude = RudeCaller(urlsplit(self._service.url).port or 0, self.told)
        # Connections are left before the service leaves them, which it does after 5 s.
        limits = httpx.Limits(keepalive_expiry=2)
        async with (
            httpx.AsyncClient(base_url=self._service.url, timeout=TIMEOUT_SECONDS, limits=limits) as client,
            asyncio.TaskGroup() as working,
        ):
            for caller in self._callers:
                working.create_task(caller.work(client, stopped))
            working.create_task(rude.work(stopped))
            await strike(self._chroma.strikes(self._service), self._round_seconds)
            stopped.set()
        self._loaded += time.monotonic() - started
        await asyncio.to_thread(wait_for_writes, self._service.url)
        await asyncio.sleep(CHROMA_SECONDS + 1)  # what was given up may have happened by now, and will not any more
        self.told.wrong += self.books.check(await asyncio.to_thread(self._everything))
        await asyncio.to_thread(self._tidy)

    def _everything(self) -> list[dict[str, Any]]:
        """All documents of the load."""
        return [one for name in COLLECTIONS for one in all_documents(self._service.url, name)]

    def _tidy(self) -> None:
        """Delete what faults left behind, so that each round begins with as much data as the one before."""
        with httpx.Client(base_url=self._service.url, timeout=TIMEOUT_SECONDS) as client:
            for batch in self.books.left():
                path = f"/collections/{batch.collection}/documents/delete"
                client.post(path, json={"ids": batch.ids}).raise_for_status()
                batch.possible = {None}
            for found in client.get("/collections").raise_for_status().json()["collections"]:
                if found["name"].startswith(SCRATCH):
                    client.delete(f"/collections/{found['name']}").raise_for_status()

    async def _settle(self) -> None:
        """Wait until what is held is what was held before, and no longer than that may take; then look."""
        pid, first = self._service.process.pid, self.samples[0]
        if self._short:
            self._chroma.rest()

        def settled() -> bool:
            now = sample(pid)
            return (now.files, now.threads) == (first.files, first.threads)

        try:
            await wait_until(settled, SETTLE_SECONDS)
        except AssertionError:
            print(f"not settled: {list((Counter(open_files(pid)) - Counter(self.files)).elements())}", flush=True)
        self.samples.append(sample(pid, self._loaded / 60))
        self.chroma_samples.append(sample(self._chroma.pid(self._service), self._loaded / 60))
        latest = self.samples[-1]
        print(
            f"{latest.minutes:6.1f} min: {sum(self.told.statuses.values())} requests, {latest.memory:.1f} MiB, "
            f"{latest.files} files, {latest.threads} threads; Chroma {self.chroma_samples[-1].memory:.1f} MiB; "
            f"{len(self.told.wrong)} wrong",
            flush=True,
        )

    def wrong(self, *, judge_memory: bool) -> list[str]:
        """What does not hold."""
        return self.told.wrong[:20] + verdicts(self.samples, judge_memory=judge_memory)


def table(store: str, soak: Soak) -> None:
    """Print the figures as Markdown."""
    first, last = soak.samples[0], soak.samples[-1]
    half = soak.samples[len(soak.samples) // 2 :]
    rows: Sequence[tuple[str, object]] = (
        ("minutes of load, without the warm-up", f"{last.minutes:.1f}"),
        ("requests, by status", ", ".join(f"{count} x {code}" for code, count in sorted(soak.told.statuses.items()))),
        ("documents sent / acknowledged", f"{soak.books.sent} / {soak.books.acknowledged}"),
        ("comparisons of everything written with everything told", soak.books.checks),
        ("documents found at the last", soak.books.found),
        ("wrong answers, documents lost, doubled, changed or halved", len(soak.told.wrong)),
        ("open files of the service, baseline / end", f"{first.files} / {last.files}"),
        ("threads of the service, baseline / end", f"{first.threads} / {last.threads}"),
        (
            "memory of the service in MiB, baseline / most / end",
            f"{first.memory:.1f} / {max(one.memory for one in soak.samples):.1f} / {last.memory:.1f}",
        ),
        (
            "its trend over the second half, MiB a minute of load",
            f"{slope(half):+.2f} of {len(half)} samples" if len(half) > 1 else "too short",
        ),
        (
            "memory of Chroma in MiB, after the first round / at the end",
            f"{soak.chroma_samples[0].memory:.1f} / {soak.chroma_samples[-1].memory:.1f}",
        ),
    )
    print(f"\n| {store} store | |\n| --- | --- |")
    for what, figure in rows:
        print(f"| {what} | {figure} |")


async def soaked(store: str, minutes: float, round_seconds: float) -> bool:
    """Run over one store, and tell.

    Args:
        store: `embedded` or `remote`.
        minutes: how long, the warm-up not counted.
        round_seconds: how long the load lasts before it is looked what it left.

    Returns:
        Whether all is well.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with setting(store, folder) as chroma:
            with running(await asyncio.to_thread(start_service, folder, ENVIRON | chroma.environ)) as service:
                soak = Soak(service, chroma, round_seconds, short=minutes < LEAST_MINUTES)
                await soak.run(minutes * 60)
                table(store, soak)
                print("faults: " + ", ".join(f"{what} {count} x" for what, count in sorted(chroma.met.items())))
                wrong = soak.wrong(judge_memory=minutes >= LEAST_MINUTES)
                if wrong:
                    lines = service.log.read_text().splitlines()
                    print("\n".join([line for line in lines if '"level": "error"' in line][:10]))
    for one in wrong:
        print(f"WRONG: {one}")
    judged = "" if minutes >= LEAST_MINUTES else " (not judged: too short)"
    print(
        f"{store}: {'FAILED' if wrong else 'holds'}; asked for are equal open files and threads, and memory of at most "
        f"{MOST_GROWTH_MIB:.0f} MiB more that rises by at most {MOST_SLOPE_MIB} MiB a minute{judged}",
        flush=True,
    )
    return not wrong


def main() -> None:
    """Soak the service over the stores that were asked for; exit with 1 when something does not hold."""
    parser = argparse.ArgumentParser(prog="soak", description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="minutes of load for each store (default: 10)")
    parser.add_argument("--round", type=float, default=40, help="seconds of load between two looks (default: 40)")
    parser.add_argument("--store", choices=("embedded", "remote", "both"), default="both")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    stores = ("remote", "embedded") if options.store == "both" else (options.store,)
    held = [asyncio.run(soaked(store, options.minutes, options.round)) for store in stores]
    sys.exit(not all(held))


if __name__ == "__main__":
    main()
