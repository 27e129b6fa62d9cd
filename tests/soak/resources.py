"""What a process holds, and whether it holds more and more."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Final

MOST_GROWTH_MIB: Final = 16.0
"""How much more memory there may be at the end than at the baseline: what fragmentation of the heap may cost."""

MOST_SLOPE_MIB: Final = 0.5
"""How much memory may grow per minute of load in the second half of the run. A leak does not stop; the heap settles."""

LEAST_SAMPLES: Final = 6
"""Fewer quiet samples than that in the second half tell of no trend."""


@dataclass(frozen=True)
class Sample:
    """What a process holds.

    Attributes:
        minutes: minutes of load until then.
        memory: resident memory, in MiB.
        files: open file descriptors.
        threads: threads.
    """

    minutes: float
    memory: float
    files: int
    threads: int


def sample(pid: int, minutes: float = 0.0) -> Sample:
    """Look at a process.

    Args:
        pid: which.
        minutes: minutes of load until now.

    Returns:
        What it holds.
    """
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    files = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return Sample(minutes, int(fields["VmRSS"].split()[0]) / 1024, files, int(fields["Threads"]))


def open_files(pid: int) -> list[str]:
    """What the file descriptors of a process stand for, sorted; to tell what was left open.

    Args:
        pid: which.

    Returns:
        Paths, kinds of pipes, and for connections both ports and the state, as the system writes them.
    """
    connections = {
        fields[9]: f"{int(fields[1][-4:], 16)} to {int(fields[2][-4:], 16)}, state {fields[3]}"
        for fields in map(str.split, Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:])
    }
    files = [str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()]
    return sorted(connections.get(file.removeprefix("socket:[").rstrip("]"), file.split(":")[0]) for file in files)


def slope(samples: Sequence[Sample]) -> float:
    """How memory grows.

    Args:
        samples: two or more.

    Returns:
        The median of the slopes between any two samples (Theil and Sen), in MiB a minute: a single step, which
        a heap makes now and then, counts for little, a steady rise in full.
    """
    return statistics.median(
        (later.memory - earlier.memory) / (later.minutes - earlier.minutes)
        for earlier, later in combinations(samples, 2)
    )


def verdicts(samples: Sequence[Sample], *, judge_memory: bool) -> list[str]:
    """What does not hold.

    Args:
        samples: those taken in quiet; the first is the baseline.
        judge_memory: whether memory counts; it does not in a run too short to tell.

    Returns:
        A sentence for each thing that is wrong.
    """
    first, last = samples[0], samples[-1]
    wrong = []
    if last.files != first.files:
        wrong.append(f"{last.files} open files at the end, {first.files} at the baseline")
    if last.threads != first.threads:
        wrong.append(f"{last.threads} threads at the end, {first.threads} at the baseline")
    if not judge_memory:
        return wrong
    if last.memory - first.memory > MOST_GROWTH_MIB:
        wrong.append(f"memory grew by {last.memory - first.memory:.1f} MiB, more than {MOST_GROWTH_MIB:.0f}")
    half = samples[len(samples) // 2 :]
    if len(half) < LEAST_SAMPLES:
        wrong.append(f"{len(half)} quiet samples in the second half are too few to tell of memory: let it run longer")
    elif slope(half) > MOST_SLOPE_MIB:
        wrong.append(f"memory grows by {slope(half):.2f} MiB a minute of load, more than {MOST_SLOPE_MIB}")
    return wrong
