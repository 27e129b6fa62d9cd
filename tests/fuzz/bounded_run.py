"""A bounded run of schemathesis, as a test. `make fuzz` runs it for longer."""

from __future__ import annotations

import re

from tests.fuzz.campaign import campaign

SECONDS = 12
EXAMPLES = 15

SEED = 14
"""A change that breaks nothing does not fail by the luck of the draw; `make fuzz` draws new cases each time."""

MIN_CASES = 100
"""Also on a loaded machine, in `SECONDS`."""


def assert_nothing_is_found(target: str) -> None:
    """Run schemathesis over a new service.

    Args:
        target: one of `TARGETS`.

    Raises:
        AssertionError: a check failed, or hardly anything was tried.
    """
    run = campaign(target, SECONDS, EXAMPLES, SEED)
    generated = re.search(r"(\d+) generated", run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr  # pytest shows it
    assert generated is not None
    assert int(generated[1]) >= MIN_CASES
