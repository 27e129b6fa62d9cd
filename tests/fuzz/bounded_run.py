"""A run of schemathesis that is bounded by its cases, as a test. `make fuzz` runs it for longer."""

from __future__ import annotations

import re

from tests.fuzz.campaign import Bounds, campaign

SEED = 14
"""A change that breaks nothing does not fail by the luck of the draw; `make fuzz` draws new cases each time."""

PHASES = ("Examples", "Coverage", "Fuzzing", "Stateful")

MIN_CASES = 800
"""A run that tried fewer has not tried the API."""


def assert_nothing_is_found(target: str, examples: int) -> None:
    """Run schemathesis over a new service.

    Args:
        target: one of `TARGETS`.
        examples: cases for each operation in the phases that draw them.

    Raises:
        AssertionError: a check failed, a phase did not run, or hardly anything was tried.
    """
    run = campaign(target, Bounds(examples, seed=SEED, sampled=True))
    generated = re.search(r"(\d+) generated", run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr  # pytest shows it
    summary = run.stdout.partition("Test Phases:")[2]
    assert [phase for phase in PHASES if f"✅ {phase}" not in summary] == [], summary
    assert generated is not None
    assert int(generated[1]) >= MIN_CASES
