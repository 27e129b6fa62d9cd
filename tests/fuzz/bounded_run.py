"""A bounded run of schemathesis, as a test. `make fuzz` runs it for longer."""

from __future__ import annotations

import re

from tests.fuzz.campaign import campaign

SECONDS = 20
EXAMPLES = 15


def assert_nothing_is_found(store: str) -> None:
    """Run schemathesis over a new service with a store of its own.

    Args:
        store: `embedded` or `remote`.

    Raises:
        AssertionError: a check failed, or hardly anything was tried.
    """
    run = campaign(store, SECONDS, EXAMPLES)
    cases = re.search(r"(\d+) generated", run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr  # pytest shows it
    assert cases is not None
    assert int(cases[1]) > 300
