"""Runs operations on the knowledge bases of a gateway and on a model in memory, with kills, and compares them.

make oracle-gateway ORACLE="--operations 20000 --database postgresql --seed 0"
python -m tests.oracle.bases.campaign --seed 17 --prefix 120        # the first 120 operations of the round of seed 17

A seed is a round: new bases, `--length` operations with 16 in flight, and one SIGKILL of the gateway among them. After
it, everything is compared exactly. A round that differs is repeated with shorter prefixes, and the shortest one that
differs is printed. The seed does not determine the order of concurrent calls, so a prefix may have to run repeatedly.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.oracle.bases.comparison import Difference
from tests.oracle.bases.gateway_process import Gateway, database, running_gateway
from tests.oracle.bases.plan import WEIGHTS, plan
from tests.oracle.bases.round import Round

LENGTH: Final = 500
"""Number of operations of a round."""

MAX_DIFFERENCES: Final = 5
"""Number of seeds with a difference at which a campaign ends."""

ATTEMPTS: Final = 2
"""Number of runs of a prefix that show no difference until a longer one is tried."""

COUNTED: Final = frozenset({*WEIGHTS, "search during a large upload"})
"""The kinds that are counted as operations. The comparisons at the end of a round are not."""


@dataclass
class Figures:
    """The figures of a campaign.

    Attributes:
        done: number of operations by kind, of rounds without a difference.
        kills: number of kills.
        unavailable: number of responses that were 503.
        seeds: the seeds that ran.
        differences: the seeds with a difference.
    """

    done: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    unavailable: int = 0
    seeds: list[int] = field(default_factory=list)
    differences: list[int] = field(default_factory=list)

    @property
    def operations(self) -> int:
        """Number of operations."""
        return sum(count for kind, count in self.done.items() if kind in COUNTED)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.done.items()))
        head = f"{self.operations} operations, {self.kills} kills, {self.unavailable} responses 503"
        return f"{head}, seeds {self.seeds[0]} to {self.seeds[-1]} ({kinds})"


async def run_round(gateway: Gateway, seed: int, length: int, prefix: int | None = None) -> Counter[str]:
    """Run a round, or a prefix of it.

    Returns:
        The number of operations by kind.

    Raises:
        Difference: the gateway and the model differ.
    """
    run = Round(gateway, seed, plan(seed, length, prefix))
    await run.run()
    return run.done


async def shortest_prefix(gateway: Gateway, seed: int, length: int) -> int:
    """The shortest prefix of a round that differs, by bisection; the whole round if no shorter one differs again."""
    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        for _ in range(ATTEMPTS):
            try:
                await run_round(gateway, seed, length, middle)
            except Difference:
                high = middle
                break
        else:
            low = middle
    return high


async def campaign(
    folder: Path,
    postgres_url: str,
    operations: int,
    *,
    first_seed: int = 0,
    length: int = LENGTH,
    prefix: int | None = None,
    shrink: bool = False,
    verbose: bool = False,
) -> Figures:
    """Run rounds.

    Args:
        folder: an empty folder.
        postgres_url: PostgreSQL for the gateway's state; empty for SQLite.
        operations: minimum number of operations.
        first_seed: the seed of the first round.
        length: number of operations of a round.
        prefix: number of operations of each round that run; None for all.
        shrink: whether the shortest prefix of a round that differs is looked for.
        verbose: whether each round is printed.
    """
    figures = Figures()
    began = time.monotonic()
    async with running_gateway(folder, postgres_url) as gateway:
        seed = first_seed
        while figures.operations < operations and len(figures.differences) < MAX_DIFFERENCES:
            figures.seeds.append(seed)
            try:
                figures.done += await run_round(gateway, seed, length, prefix)
            except Difference as error:
                figures.differences.append(seed)
                print(f"seed {seed}: DIFFERENCE, {error}", flush=True)
                if shrink:
                    found = await shortest_prefix(gateway, seed, length)
                    print(
                        f"the shortest prefix that differs: --seed {seed} --length {length} --prefix {found}",
                        flush=True,
                    )
            figures.kills, figures.unavailable = gateway.kills, gateway.unavailable
            if verbose:
                print(f"{time.monotonic() - began:.0f} s: {figures}", flush=True)
            if prefix is not None:
                break
            seed += 1
    return figures


def main() -> int:
    """Run a campaign. The exit code is 1 after a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--operations", type=int, default=20_000, help="minimum number of operations")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first round")
    parser.add_argument("--length", type=int, default=LENGTH, help="number of operations of a round")
    parser.add_argument("--prefix", type=int, help="run only so many operations of one round")
    parser.add_argument("--verbose", action="store_true", help="print a line for each round")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name, database(options.database) as url:
        run = campaign(
            Path(name),
            url,
            options.operations,
            first_seed=options.seed,
            length=options.length,
            prefix=options.prefix,
            shrink=options.prefix is None,
            verbose=options.verbose,
        )
        figures = asyncio.run(run)
    verdict = f"differences with seeds {figures.differences}" if figures.differences else "no difference"
    print(f"{options.database}: {verdict}, {figures}, {time.monotonic() - began:.0f} s", flush=True)
    return 1 if figures.differences else 0


if __name__ == "__main__":
    sys.exit(main())
