"""Fixtures of the system tests: a table of the documents that were sent, acknowledged and found in each fault test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from tests.support.ledger import Figures

Report: TypeAlias = Callable[[str, Figures], None]
"""Adds a row to the table: the fault and the figures."""

_rows = pytest.StashKey[list[str]]()


@pytest.fixture
def report(pytestconfig: pytest.Config, request: pytest.FixtureRequest) -> Report:
    """The table of faults, which is printed at the end of the run."""
    test = f"`{request.path.name}::{request.node.originalname}`"

    def add(fault: str, figures: Figures) -> None:
        statuses = ", ".join(f"{count} x {status or 'cut'}" for status, count in sorted(figures.statuses.items()))
        row = f"| {fault} | {test} | {figures.sent} | {figures.acknowledged} | {figures.found} | {statuses} |"
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
