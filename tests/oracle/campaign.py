"""Runs the state machine over both kinds of store for a number of operations.

python -m tests.oracle.campaign --operations 100000          # half of them over each kind of store, concurrently
python -m tests.oracle.campaign --store remote --seed 17 --operations 1     # the examples of one seed
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.oracle.machine import REACHED, StoreMachine
from tests.support.servers import running, start_chroma
from tests.support.stores import StoreLocation, stack

STEPS: Final = 50
"""Maximum number of steps in an example. A step is several operations."""

EXAMPLES: Final = 20
"""Number of examples of a seed. Between two seeds the operations are counted and logged."""

MAX_DIFFERENCES: Final = 10
"""Number of seeds with a difference at which a campaign ends."""

TIMEOUT_SECONDS: Final = 600.0
"""Maximum wait for a response of Chroma. A timeout on a machine under load is no difference."""

KINDS: Final = ("embedded", "remote")


@dataclass
class Figures:
    """The figures of a campaign over one store.

    Attributes:
        done: number of operations by kind, of seeds without a difference.
        seeds: the seeds that ran.
        differences: the seeds with a difference.
    """

    done: Counter[str] = field(default_factory=Counter)
    seeds: list[int] = field(default_factory=list)
    differences: list[int] = field(default_factory=list)

    @property
    def operations(self) -> int:
        """Number of operations, without the queries that only look for a document by its own embedding."""
        return self.done.total() - self.done[REACHED]

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.done.items()))
        return f"{self.operations} operations, seeds {self.seeds[0]} to {self.seeds[-1]} ({kinds})"


@contextmanager
def machines(location: StoreLocation, url: str) -> Iterator[type[StoreMachine]]:
    """State machines over a store that is open.

    Args:
        location: where the store keeps its documents.
        url: address of a Chroma server; empty for embedded Chroma.
    """
    loop = asyncio.new_event_loop()
    store = stack(location, url, timeout=TIMEOUT_SECONDS)
    loop.run_until_complete(store.start())

    class Machine(StoreMachine):
        pass

    Machine.store, Machine.loop = store, loop
    try:
        yield Machine
    finally:
        loop.run_until_complete(store.close())
        loop.close()


def run_seed(machine: type[StoreMachine], number: int, examples: int) -> Counter[str]:
    """Run the examples of a seed.

    Returns:
        The number of operations by kind.

    Raises:
        AssertionError: the store and numpy differ; the notes contain the shortest steps to it.
    """
    machine.done = Counter()
    run_state_machine_as_test(
        seed(number)(machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
    return machine.done


def run_oracle(
    location: StoreLocation,
    url: str,
    operations: int,
    *,
    first_seed: int = 0,
    examples: int = EXAMPLES,
    verbose: bool = False,
) -> Figures:
    """Run the machine over a store, one seed after the other.

    Args:
        location: where the store keeps its documents.
        url: address of a Chroma server; empty for embedded Chroma.
        operations: minimum number of operations.
        examples: number of examples of a seed.
        verbose: whether each seed is printed.
    """
    figures = Figures()
    began = time.monotonic()
    with machines(location, url) as machine:
        number = first_seed
        while figures.operations < operations and len(figures.differences) < MAX_DIFFERENCES:
            figures.seeds.append(number)
            try:
                figures.done += run_seed(machine, number, examples)
            except Exception:  # noqa: BLE001 - the campaign goes on with the next seed, and fails at its end
                figures.differences.append(number)
                print(f"seed {number}: DIFFERENCE\n{traceback.format_exc()}", flush=True)
            if verbose:
                print(f"{time.monotonic() - began:.0f} s: {figures}", flush=True)
            number += 1
    return figures


def run_kind(kind: str, options: argparse.Namespace) -> int:
    """Run it over one kind of store.

    Returns:
        The exit code: 1 after a difference.
    """
    began = time.monotonic()
    with ExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory()))
        url = exits.enter_context(running(start_chroma(folder))).url if kind == "remote" else ""
        location = StoreLocation(folder, url, f"oracle-{uuid4().hex}")
        figures = run_oracle(location, url, options.operations, first_seed=options.seed, verbose=options.verbose)
    verdict = f"differences with seeds {figures.differences}" if figures.differences else "no difference"
    print(f"{kind}: {verdict}, {figures}, {time.monotonic() - began:.0f} s", flush=True)
    return 1 if figures.differences else 0


def main() -> int:
    """Run it over both kinds of store, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=100_000, help="number of operations, of all stores together")
    parser.add_argument("--store", choices=KINDS, help="run over one kind of store only")
    parser.add_argument("--seed", type=int, default=0, help=f"the first seed; a seed is {EXAMPLES} examples")
    parser.add_argument("--verbose", action="store_true", help="print a line for each seed")
    options = parser.parse_args()
    if options.store is not None:
        return run_kind(options.store, options)
    half = ["--operations", str(-(-options.operations // len(KINDS))), "--seed", str(options.seed)]
    command = [sys.executable, "-m", "tests.oracle.campaign", *half, *(["--verbose"] if options.verbose else [])]
    processes = [subprocess.Popen([*command, "--store", kind]) for kind in KINDS]
    return max(process.wait() for process in processes)


if __name__ == "__main__":
    sys.exit(main())
