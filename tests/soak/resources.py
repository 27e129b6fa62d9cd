"""The resources of a process, and whether they leak."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

MAX_GROWTH_MIB: Final = 16.0
"""Maximum growth of memory between the baseline and the end, to allow for fragmentation of the heap."""

MAX_SLOPE_MIB: Final = 0.5
"""Maximum growth of memory per minute of load in the second half of the run. A leak continues; the heap settles."""

MIN_SAMPLES: Final = 6
"""Minimum number of samples in the second half for a slope."""


@dataclass(frozen=True)
class Sample:
    """The resources of a process.

    Attributes:
        minutes: minutes of load so far.
        memory: resident memory, in MiB.
        files: open file descriptors.
    """

    minutes: float
    memory: float
    files: int
    threads: int


def sample(pid: int, minutes: float = 0.0) -> Sample:
    """Measure the resources of a process.

    Args:
        pid: the process.
        minutes: minutes of load so far.
    """
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    # The pool of connections to SQLite opens files until it has its size.
    files = sum(1 for name in open_files(pid) if "gateway.db" not in name)
    return Sample(minutes, int(fields["VmRSS"].split()[0]) / 1024, files, int(fields["Threads"]))


def open_files(pid: int) -> list[str]:
    """Descriptions of the open file descriptors of a process, sorted.

    Args:
        pid: the process.

    Returns:
        Paths, kinds of pipes, and for connections both ports and the state, in the notation of `/proc/net/tcp`.
    """
    connections = {
        fields[9]: f"{int(fields[1][-4:], 16)} to {int(fields[2][-4:], 16)}, state {fields[3]}"
        for fields in map(str.split, Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:])
    }
    files = [str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()]
    return sorted(connections.get(file.removeprefix("socket:[").rstrip("]"), file.split(":")[0]) for file in files)


def slope(samples: Sequence[Sample]) -> float:
    """The growth of memory.

    Args:
        samples: two or more.

    Returns:
        The median of the slopes between any two samples (Theil and Sen), in MiB per minute. A single step, which a
        heap makes now and then, has little influence; a steady growth has its full influence.
    """
    return statistics.median(
        (later.memory - earlier.memory) / (later.minutes - earlier.minutes)
        for earlier, later in combinations(samples, 2)
    )


def verdicts(samples: Sequence[Sample], *, assert_memory: bool, pool_threads: int = 0) -> list[str]:
    """Errors in the use of resources.

    Args:
        samples: samples taken without load; the first one is the baseline.
        assert_memory: whether memory is asserted; a short run is too short for that.
        pool_threads: maximum number of threads that a pool may start after the baseline, and keeps.

    Returns:
        A sentence for each error.
    """
    first, last = samples[0], samples[-1]
    wrong = []
    if last.files != first.files:
        wrong.append(f"{last.files} open files at the end, {first.files} at the baseline")
    if not 0 <= last.threads - first.threads <= pool_threads:
        wrong.append(f"{last.threads} threads at the end, {first.threads} at the baseline")
    if not assert_memory:
        return wrong
    if last.memory - first.memory > MAX_GROWTH_MIB:
        wrong.append(f"memory grew by {last.memory - first.memory:.1f} MiB, more than {MAX_GROWTH_MIB:.0f}")
    half = samples[len(samples) // 2 :]
    if len(half) < MIN_SAMPLES:
        wrong.append(f"{len(half)} samples in the second half are too few for a slope: run the soak test for longer")
    elif slope(half) > MAX_SLOPE_MIB:
        wrong.append(f"memory grows by {slope(half):.2f} MiB per minute of load, more than {MAX_SLOPE_MIB}")
    return wrong
