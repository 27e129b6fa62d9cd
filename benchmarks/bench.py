"""Compare the service with direct calls to Chroma: same run, same records, same compiled load generator.

`make bench` runs it; `make bench BENCH="--vectors FILE"` reads real vectors from a file of numpy arrays `vectors` and
`queries`. It needs wrk. The ratios matter: the machine's speed drifts, and both sides drift with it.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

from benchmarks.corpus import Corpus, load_corpus
from benchmarks.fill import load_chroma, load_service
from benchmarks.load import Measured, load
from benchmarks.lone_calls import added, lone_calls
from benchmarks.recall import recall_table
from benchmarks.rows import Row, Targets, rows
from benchmarks.single_writers import GOAL, TITLE, BatchedRate, single_writers
from tests.support.servers import Served, running, start_chroma, start_service


@contextmanager
def served(folder: Path, store: str) -> Iterator[tuple[Served, Served]]:
    """Start a Chroma server, and the service over a store: that server, or embedded Chroma."""
    for name in ("chroma", "service"):
        (folder / name).mkdir()
    with running(start_chroma(folder / "chroma")) as chroma:
        quiet = {"RAGSTORE_LOG_LEVEL": "warning"}
        environ = quiet | ({"RAGSTORE_CHROMA_URL": chroma.url} if store == "remote" else {})
        environ |= {name: value for name, value in os.environ.items() if name.startswith("RAGSTORE_")}
        with running(start_service(folder / "service", environ)) as service:
            yield chroma, service


def measured(row: Row, seconds: float, rounds: int) -> tuple[float, float, int]:
    """Measure a row, alternating between Chroma and the service.

    Args:
        seconds: time for each measurement.
        rounds: number of measurements of each side.

    Returns:
        The median figure of Chroma, the median figure of the service, and the number of failures.
    """
    direct: list[float] = []
    ours: list[float] = []
    failures = 0
    for _ in range(rounds):
        results = [load(work, seconds) for work in row.chroma]
        figures = [_figure(row, result) for result in results]
        direct.append(max(figures) if row.together else sum(figures))
        result = load(row.service, seconds)
        ours.append(_figure(row, result))
        failures += result.failures + sum(direct_result.failures for direct_result in results)
    return statistics.median(direct), statistics.median(ours), failures


def _figure(row: Row, result: Measured) -> float:
    return result.rate if row.figure == "rate" else result.p50_ms


def table(store: str, corpus: Corpus, options: argparse.Namespace) -> None:
    """Print the table of one store."""
    with tempfile.TemporaryDirectory() as name, served(Path(name), store) as (chroma, service):
        collections = load_chroma(chroma.url, corpus)
        load_service(service.url, corpus)
        targets = Targets(collections, service.url, Path(name))
        print(f"\n## {store} store\n", flush=True)
        print("| work | Chroma | service | ratio | target |\n| --- | --- | --- | --- | --- |")
        for row in rows(targets, corpus):
            if not _is_chosen(row.title, options.only):
                continue
            direct, ours, failures = measured(row, options.seconds, options.rounds)
            unit = "/s" if row.figure == "rate" else " ms"
            note = f" ({failures} failed)" if failures else ""
            ratio = f"{ours / direct:.2f}" + (f" ({ours - direct:+.2f} ms)" if row.figure == "time" else "")
            print(f"| {row.title}{note} | {direct:.1f}{unit} | {ours:.1f}{unit} | {ratio} | {row.goal} |", flush=True)
        for with_ids, title in TITLE.items():
            if _is_chosen(title, options.only):
                folder = Path(name)
                rounds = [
                    single_writers(
                        chroma.url,
                        service.url,
                        folder,
                        f"single-{with_ids}-{number}",
                        options.seconds,
                        with_ids=with_ids,
                    )
                    for number in range(options.rounds)
                ]
                _print_single_writers(title, rounds)
        _print_lone_calls(targets, corpus, options)
        if not options.only:
            print(recall_table(collections["corpus"], service.url, corpus), flush=True)
        print(f"\nmemory of the service afterwards: {resident_mib(service.process.pid):.0f} MiB")


def _is_chosen(title: str, texts: Sequence[str] | None) -> bool:
    return not texts or any(text in title for text in texts)


def _print_single_writers(title: str, rounds: Sequence[BatchedRate]) -> None:
    direct, ours = (statistics.median(getattr(one, side) for one in rounds) for side in ("chroma", "service"))
    ratio = statistics.median(one.service / one.chroma for one in rounds)
    batch = statistics.median(one.batch for one in rounds)
    failures = sum(one.failures for one in rounds)
    note = f" ({failures} failed)" if failures else ""
    print(f"| {title} ({batch:.0f}){note} | {direct:.1f}/s | {ours:.1f}/s | {ratio:.2f} | {GOAL} |", flush=True)


def _print_lone_calls(targets: Targets, corpus: Corpus, options: argparse.Namespace) -> None:
    """Print the table of what the service adds to lone calls."""
    print("\n| call, in turn with Chroma's | Chroma | service | added | target |\n| --- | --- | --- | --- | --- |")
    for call in lone_calls(targets, corpus, options.pairs):
        if _is_chosen(call.title, options.only):
            found = added(call)
            times = f"{found.chroma_ms:.1f} ms | {found.service_ms:.1f} ms | {found.added_ms:+.2f} ms"
            print(f"| {call.title} | {times} | {call.goal} |", flush=True)


def resident_mib(pid: int) -> float:
    """Resident memory of a process and its children, in MiB."""
    total = 0.0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if pid in (int(fields["Pid"]), int(fields["PPid"])):
            total += int(fields.get("VmRSS", "0 kB").split()[0]) / 1024
    return total


def idle(folder: Path) -> None:
    """Print the start-up time of the service, and its memory when idle, over a Chroma server."""
    with running(start_chroma(folder)) as chroma:
        started = time.perf_counter()
        with running(start_service(folder, {"RAGSTORE_CHROMA_URL": chroma.url})) as service:
            seconds = time.perf_counter() - started
            httpx.get(f"{service.url}/collections").raise_for_status()
            print(
                f"\nremote store: ready after {seconds:.2f} s, idle memory {resident_mib(service.process.pid):.0f} MiB"
            )


def main() -> None:
    """Compare the service with direct calls to Chroma."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--vectors", type=Path, help="file of numpy arrays `vectors` and `queries`")
    parser.add_argument("--store", choices=("remote", "embedded", "both"), default="both")
    parser.add_argument("--seconds", type=float, default=4, help="time for each measurement (default: 4)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each row (default: 3)")
    parser.add_argument("--pairs", type=int, default=100, help="pairs of a lone write; a query has 4 times as many")
    parser.add_argument("--only", nargs="+", help="measure only rows whose title contains one of these texts")
    options = parser.parse_args()
    corpus = load_corpus(options.vectors)
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}")
    print(f"{len(corpus.vectors)} records of {corpus.vectors.shape[1]} dimensions: {options.vectors or 'clustered'}")
    with tempfile.TemporaryDirectory() as name:
        idle(Path(name))
    for store in ("remote", "embedded") if options.store == "both" else (options.store,):
        table(store, corpus, options)


if __name__ == "__main__":
    main()
