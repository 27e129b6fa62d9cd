"""A soak test: a mixed load with faults, after which no resource has leaked and no document is lost or changed.

`make soak SOAK="--minutes 30 --store remote"` runs this. The load comes in rounds; the first two are the warm-up.
After each round the load stops, and all documents are read and compared with the responses to their writes. Then,
without load, the service's memory, open files and threads are measured. The exit code is 1 when something is wrong.
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

from tests.soak.abusive_clients import BUDGET_SECONDS, MAX_BODY, AbusiveClient
from tests.soak.faults import ChromaUnderTest, chroma_under_test, inject_faults
from tests.soak.journal import Journal
from tests.soak.load import COLLECTIONS, LARGE, SCRATCH, LoadClient, Responses
from tests.soak.resources import MAX_GROWTH_MIB, MAX_SLOPE_MIB, Sample, open_files, sample, slope, verdicts
from tests.support.ledger import TIMEOUT_SECONDS, all_documents, wait_for_writes, wait_until
from tests.support.servers import Served, running, start_service

CLIENTS: Final = 6
CHROMA_SECONDS: Final = 2.0
"""The service's timeout for Chroma; a failed write may still happen within this time."""

SETTLE_SECONDS: Final = 45.0
"""Maximum time for open files and threads to settle: connections to Chroma are kept for 15 to 30 s."""

WARM_UP_ROUNDS: Final = 2
"""Rounds before the baseline, in which the heap grows to the size that the load needs; none in a short run."""

QUIET_SECONDS: Final = 7.0
"""Time without load before the baseline, in which the service closes idle connections, each after 5 s."""

MIN_MINUTES: Final = 5.0
"""In a shorter run, memory is reported but not asserted, since the heap has not settled, and idle connections are
closed."""

ENVIRON: Final = {
    "RAGSTORE_REQUEST_TIMEOUT_SECONDS": str(BUDGET_SECONDS),
    "RAGSTORE_CHROMA_TIMEOUT_SECONDS": str(CHROMA_SECONDS),
    "RAGSTORE_MAX_BODY_BYTES": str(MAX_BODY),
    "RAGSTORE_MAX_REQUESTS": "64",
}


class Soak:
    """One run over one store.

    Args:
        round_seconds: duration of the load between two checks.
        short: whether to close idle connections to Chroma rather than to wait until they expire.
    """

    def __init__(self, service: Served, chroma: ChromaUnderTest, round_seconds: float, *, short: bool) -> None:
        self._service = service
        self._chroma = chroma
        self._round_seconds = round_seconds
        self._short = short
        self._clients: list[LoadClient] = []
        self._loaded = 0.0
        self.journal = Journal()
        self.responses = Responses()
        self.samples: list[Sample] = []
        self.chroma_samples: list[Sample] = []
        self.files: list[str] = []

    async def run(self, seconds: float) -> None:
        """Warm up, take the baseline, and put the load on the service.

        Args:
            seconds: duration of the load, without the warm-up.
        """
        await self._prepare()
        self._clients = [LoadClient(number, self.journal, self.responses) for number in range(CLIENTS)]
        for _ in range(0 if self._short else WARM_UP_ROUNDS):
            await self._round()
        self._chroma.close_idle_connections()
        await asyncio.sleep(QUIET_SECONDS)
        self._loaded = 0.0
        self.samples.append(sample(self._service.process.pid))
        self.files = open_files(self._service.process.pid)
        while self._loaded < seconds:
            await self._round()
            await self._settle()

    async def _prepare(self) -> None:
        """Create the collections, and a page that exceeds the buffers of a socket."""
        async with httpx.AsyncClient(base_url=self._service.url, timeout=TIMEOUT_SECONDS) as client:
            for name in (*COLLECTIONS, LARGE):
                (await client.post("/collections", json={"name": name, "distance": "l2"})).raise_for_status()
            for number in range(40):
                one = {"id": str(number), "text": "", "embedding": [1, 1], "metadata": {"filler": "x" * 250_000}}
                written = await client.put(f"/collections/{LARGE}/documents", json={"documents": [one]})
                written.raise_for_status()

    async def _round(self) -> None:
        """Run the load with faults; then compare the stored documents with the journal."""
        stopped = asyncio.Event()
        started = time.monotonic()
        abusive = AbusiveClient(urlsplit(self._service.url).port or 0, self.responses)
        # Connections are closed before the service closes them, which it does after 5 s.
        limits = httpx.Limits(keepalive_expiry=2)
        async with (
            httpx.AsyncClient(base_url=self._service.url, timeout=TIMEOUT_SECONDS, limits=limits) as client,
            asyncio.TaskGroup() as working,
        ):
            for load_client in self._clients:
                working.create_task(load_client.work(client, stopped))
            working.create_task(abusive.work(stopped))
            await inject_faults(self._chroma.fault_injections(self._service), self._round_seconds)
            stopped.set()
        self._loaded += time.monotonic() - started
        await asyncio.to_thread(wait_for_writes, self._service.url)
        await asyncio.sleep(CHROMA_SECONDS + 1)  # by now, writes that expired have happened or never will
        self.responses.wrong += self.journal.check(await asyncio.to_thread(self._everything))
        await asyncio.to_thread(self._tidy)

    def _everything(self) -> list[dict[str, Any]]:
        """All documents of the load."""
        return [one for name in COLLECTIONS for one in all_documents(self._service.url, name)]

    def _tidy(self) -> None:
        """Delete the documents that faults left behind, so that each round starts with the same amount of data."""
        with httpx.Client(base_url=self._service.url, timeout=TIMEOUT_SECONDS) as client:
            for batch in self.journal.left():
                path = f"/collections/{batch.collection}/documents/delete"
                client.post(path, json={"ids": batch.ids}).raise_for_status()
                batch.possible = {None}
            for found in client.get("/collections").raise_for_status().json()["collections"]:
                if found["name"].startswith(SCRATCH):
                    client.delete(f"/collections/{found['name']}").raise_for_status()

    async def _settle(self) -> None:
        """Wait until open files and threads are as in the baseline, or until the maximum time; then take a sample."""
        pid, first = self._service.process.pid, self.samples[0]
        if self._short:
            self._chroma.close_idle_connections()

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
            f"{latest.minutes:6.1f} min: {sum(self.responses.statuses.values())} requests, {latest.memory:.1f} MiB, "
            f"{latest.files} files, {latest.threads} threads; Chroma {self.chroma_samples[-1].memory:.1f} MiB; "
            f"{len(self.responses.wrong)} wrong",
            flush=True,
        )

    def wrong(self, *, assert_memory: bool) -> list[str]:
        """The errors that were found."""
        return self.responses.wrong[:20] + verdicts(self.samples, assert_memory=assert_memory)


def table(store: str, soak: Soak) -> None:
    """Print the figures as Markdown."""
    first, last = soak.samples[0], soak.samples[-1]
    half = soak.samples[len(soak.samples) // 2 :]
    rows: Sequence[tuple[str, object]] = (
        ("minutes of load, without the warm-up", f"{last.minutes:.1f}"),
        (
            "requests, by status",
            ", ".join(f"{count} x {code}" for code, count in sorted(soak.responses.statuses.items())),
        ),
        ("documents sent / acknowledged", f"{soak.journal.sent} / {soak.journal.acknowledged}"),
        ("comparisons of all documents with all responses", soak.journal.checks),
        ("documents found at the end", soak.journal.found),
        ("wrong responses, documents lost, duplicated, changed or partial", len(soak.responses.wrong)),
        ("open files of the service, baseline / end", f"{first.files} / {last.files}"),
        ("threads of the service, baseline / end", f"{first.threads} / {last.threads}"),
        (
            "memory of the service in MiB, baseline / max / end",
            f"{first.memory:.1f} / {max(one.memory for one in soak.samples):.1f} / {last.memory:.1f}",
        ),
        (
            "its trend in the second half, MiB a minute of load",
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


async def soak_store(store: str, minutes: float, round_seconds: float) -> bool:
    """Run the soak test over one store, and print the figures.

    Args:
        store: `embedded` or `remote`.
        minutes: duration of the load, without the warm-up.
        round_seconds: duration of the load between two checks.

    Returns:
        Whether everything was correct.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with chroma_under_test(store, folder) as chroma:
            with running(await asyncio.to_thread(start_service, folder, ENVIRON | chroma.environ)) as service:
                soak = Soak(service, chroma, round_seconds, short=minutes < MIN_MINUTES)
                await soak.run(minutes * 60)
                table(store, soak)
                print("faults: " + ", ".join(f"{what} {count} x" for what, count in sorted(chroma.injected.items())))
                wrong = soak.wrong(assert_memory=minutes >= MIN_MINUTES)
                if wrong:
                    lines = service.log.read_text().splitlines()
                    print("\n".join([line for line in lines if '"level": "error"' in line][:10]))
    for one in wrong:
        print(f"WRONG: {one}")
    judged = "" if minutes >= MIN_MINUTES else " (not asserted: too short)"
    print(
        f"{store}: {'FAILED' if wrong else 'passed'}; required are equal numbers of open files and threads, and "
        f"at most {MAX_GROWTH_MIB:.0f} MiB more memory, with a slope of at most {MAX_SLOPE_MIB} MiB per minute{judged}",
        flush=True,
    )
    return not wrong


def main() -> None:
    """Run the soak test over the given stores; exit with 1 when something is wrong."""
    parser = argparse.ArgumentParser(prog="soak", description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="minutes of load for each store (default: 10)")
    parser.add_argument("--round", type=float, default=40, help="seconds of load between two checks (default: 40)")
    parser.add_argument("--store", choices=("embedded", "remote", "both"), default="both")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    stores = ("remote", "embedded") if options.store == "both" else (options.store,)
    passed = [asyncio.run(soak_store(store, options.minutes, options.round)) for store in stores]
    sys.exit(not all(passed))


if __name__ == "__main__":
    main()
