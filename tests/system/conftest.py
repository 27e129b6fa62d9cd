"""What the tests with real processes share: a table of what was sent, acknowledged and found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from tests.support.ledger import Figures

Report: TypeAlias = Callable[[str, Figures], None]
"""Puts a line into the table: what was done, and what came of it."""

_rows = pytest.StashKey[list[str]]()


@pytest.fixture
def report(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Report:
    """The table of faults, which is printed at the end of the run."""
    test = f"`{request.path.name}::{request.node.originalname}`"

    def add(fault: str, figures: Figures) -> None:
        told = ", ".join(f"{count} x {status or 'cut'}" for status, count in sorted(figures.statuses.items()))
        row = f"| {fault} | {test} | {figures.sent} | {figures.acknowledged} | {figures.found} | {told} |"
        pytestconfig.stash.setdefault(_rows, []).append(row)

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table."""
    rows = config.stash.get(_rows, [])
    if rows:
        terminalreporter.section("faults")
        terminalreporter.line("| fault | test | documents sent | acknowledged | found | requests, by status |")
        terminalreporter.line("| --- | --- | --- | --- | --- | --- |")
        for row in rows:
            terminalreporter.line(row)
