"""Runs the state machine over one kind of store for a number of operations.

python -m tests.oracle.campaign --operations 100000          # half of them over each kind of store
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from uuid import uuid4

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.oracle.machine import StoreMachine
from tests.support.servers import running, start_chroma
from tests.support.stores import StoreLocation, stack

STEPS: Final = 50
"""Maximum number of operations in an example."""

EXAMPLES: Final = 50
"""Number of examples between two looks at the number of operations."""


def run_oracle(location: StoreLocation, url: str, operations: int, *, examples: int = EXAMPLES) -> int:
    """Run the machine over a store.

    Args:
        location: where the store keeps its documents.
        url: address of a Chroma server; empty for embedded Chroma.
        operations: minimum number of operations.
        examples: number of examples between two looks at it.

    Returns:
        The number of operations; there was no difference.
    """
    loop = asyncio.new_event_loop()
    store = stack(location, url)
    loop.run_until_complete(store.start())

    class Machine(StoreMachine):
        pass

    Machine.store, Machine.loop, Machine.operations = store, loop, 0
    try:
        while Machine.operations < operations:
            run_state_machine_as_test(
                Machine,
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=STEPS,
                    deadline=None,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
    finally:
        loop.run_until_complete(store.close())
        loop.close()
    return Machine.operations


def main() -> None:
    """Run it over both kinds of store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=100_000, help="number of operations, of both stores together")
    options = parser.parse_args()
    with ExitStack() as exits:
        folder = Path(exits.enter_context(tempfile.TemporaryDirectory()))
        chroma = exits.enter_context(running(start_chroma(folder)))
        location = StoreLocation(folder, chroma.url, f"oracle-{uuid4().hex}")
        for kind, url in (("embedded", ""), ("remote", chroma.url)):
            began = time.monotonic()
            done = run_oracle(location, url, options.operations // 2)
            print(f"{kind}: {done} operations without a difference, {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
