"""`make test` runs files with few tests first."""

from __future__ import annotations

import re

from tests.runs.conftest import InnerRun


def test_files_with_few_tests_run_first_and_the_tests_of_a_file_in_their_order(inner: InnerRun) -> None:
    for name, count in {"test_a": 3, "test_b": 1, "test_c": 2}.items():
        inner.write(name, "".join(f"def test_{number}(): pass\n" for number in (2, 0, 1)[:count]))
    command = re.sub(r"--numprocesses \d", "--numprocesses 1 --verbose", inner.command("test"))
    found = re.findall(r"(test_\w)\.py::test_(\d)", inner.shell(command).output)
    started = list(dict.fromkeys(found))
    assert started == [("test_b", "2"), ("test_c", "2"), ("test_c", "0"), *(("test_a", each) for each in "201")]
