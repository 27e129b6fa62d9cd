"""`make test ATTEMPTS=2`: a test that fails once passes the run, unless there are too many of them."""

from __future__ import annotations

import pytest

from tests.runs.conftest import InnerRun

TESTS = """
    from pathlib import Path
    import pytest

    @pytest.mark.parametrize("number", range({flaky}))
    def test_flaky(number):
        seen = Path(__file__).with_name(f"seen-{{number}}")
        if not seen.exists():
            seen.touch()
            raise AssertionError

    @pytest.mark.parametrize("number", range({broken}))
    def test_broken(number):
        raise AssertionError

    def test_fine():
        pass
"""


def run(inner: InnerRun, flaky: int, broken: int = 0) -> tuple[int, list[str]]:
    """The exit code of the target's command, and its output from the list of the tests that ran twice."""
    inner.write("test_a", TESTS.format(flaky=flaky, broken=broken))
    found = inner.shell(inner.command("test", "ATTEMPTS=2"))
    assert "1 passed" in found.output
    _, _, end = found.output.partition("tests that failed in the first run, and their second run")
    return found.code, [line for line in end.splitlines()[1:] if line]


def test_a_run_without_failures_has_no_second_run(inner: InnerRun) -> None:
    assert run(inner, flaky=0) == (0, [])


@pytest.mark.parametrize("flaky", [1, 3])
def test_up_to_three_tests_that_fail_once_are_listed_and_the_run_passes(inner: InnerRun, flaky: int) -> None:
    code, lines = run(inner, flaky)
    assert code == 0
    assert lines[:-1] == [f"passed: test_a.py::test_flaky[{number}]" for number in range(flaky)]
    assert f"{flaky} passed" in lines[-1]


def test_a_fourth_test_that_fails_once_fails_the_run_although_all_pass_the_second_time(inner: InnerRun) -> None:
    code, lines = run(inner, flaky=4)
    assert code != 0
    assert lines[:-2] == [f"passed: test_a.py::test_flaky[{number}]" for number in range(4)]
    assert lines[-2] == "TOO MANY: 4 tests failed in the first run, of at most 3"
    assert "4 passed" in lines[-1]


def test_a_test_that_fails_twice_fails_the_run(inner: InnerRun) -> None:
    code, lines = run(inner, flaky=1, broken=1)
    assert code != 0
    assert lines[:2] == ["passed: test_a.py::test_flaky[0]", "failed twice: test_a.py::test_broken[0]"]
    assert "1 failed, 1 passed" in lines[-1]


def test_a_run_that_was_interrupted_has_no_second_run(inner: InnerRun) -> None:
    inner.write("test_b", "raise KeyboardInterrupt")
    inner.write("test_a", "def test_it(): pass")
    found = inner.shell(inner.command("test", "ATTEMPTS=2", "JOBS=0"))
    assert found.code != 0
    assert "second run" not in found.output
