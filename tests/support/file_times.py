"""Lists the files of tests that took the longest, at the end of a run: `pytest --slowest-files 30`.

A worker of pytest-xdist runs whole files, so files decide how long a run takes. pytest's `--durations` lists tests.
"""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--slowest-files`."""
    parser.addoption("--slowest-files", type=int, default=0, metavar="N", help="list the N files that took the longest")


def pytest_configure(config: pytest.Config) -> None:
    """Measure, where the reports of all workers arrive."""
    count: int = config.getoption("--slowest-files")
    if count > 0 and not hasattr(config, "workerinput"):
        config.pluginmanager.register(FileTimes(count))


class FileTimes:
    """Adds the times of tests up by file, with their fixtures.

    A fixture that several files share counts for the file that is the first to use it.

    Args:
        count: maximum number of files in the list.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._milliseconds: Counter[str] = Counter()
        self._tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of a test's setup, call or teardown."""
        file = report.nodeid.partition("::")[0]
        self._milliseconds[file] += round(report.duration * 1000)
        self._tests[file] += report.when == "setup"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the files, the slowest first."""
        terminalreporter.section("slowest files")
        for file, milliseconds in self._milliseconds.most_common(self._count):
            terminalreporter.line(f"{milliseconds / 1000:7.1f} s  {self._tests[file]:5} tests  {file}")
