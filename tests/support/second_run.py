"""The second run of tests that failed: `pytest --last-failed --second-run`, after `make test ATTEMPTS=2` ran all tests.

The end of its output lists each test that needed it. A few tests may fail for reasons of the machine; if more than
`MAX_TESTS` fail in a first run, something else is wrong, and the second run fails even if all of them pass in it.
"""

from __future__ import annotations

import pytest

MAX_TESTS = 3


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--second-run`."""
    parser.addoption("--second-run", action="store_true", help=f"list all tests; fail beyond {MAX_TESTS} of them")


def pytest_configure(config: pytest.Config) -> None:
    """Note the outcomes, in a second run."""
    if config.getoption("--second-run"):
        config.pluginmanager.register(SecondRun())


class SecondRun:
    """Notes the outcome of each test of a second run, and lists them at its end."""

    def __init__(self) -> None:
        self._outcomes: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the tests: all of them failed in the first run."""
        self._outcomes.update((item.nodeid, "not run") for item in session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note an outcome."""
        if report.failed:
            self._outcomes[report.nodeid] = "failed twice"
        elif report.when == "call" and report.passed:
            self._outcomes[report.nodeid] = "passed"

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run if too many tests needed it."""
        if len(self._outcomes) > MAX_TESTS and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the tests."""
        terminalreporter.section("tests that failed in the first run, and their second run")
        for test, outcome in self._outcomes.items():
            terminalreporter.line(f"{outcome}: {test}")
        if len(self._outcomes) > MAX_TESTS:
            count = len(self._outcomes)
            terminalreporter.line(f"TOO MANY: {count} tests failed in the first run, of at most {MAX_TESTS}")
