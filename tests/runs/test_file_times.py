"""`make test` lists the files that took the longest."""

from __future__ import annotations

from tests.runs.conftest import InnerRun


def test_the_slowest_file_of_all_workers_is_listed_with_the_time_of_its_fixtures(inner: InnerRun) -> None:
    inner.write("test_a", "def test_quick(): pass\n")
    late = "import pytest, time\n@pytest.fixture\ndef late(): time.sleep(1)\ndef test_late(late): pass\n"
    inner.write("test_b", late + "def test_other(): pass\n")
    found = inner.shell(inner.command("test").replace("--slowest-files 30", "--slowest-files 1"))
    _, _, end = found.output.partition("slowest files")
    [line] = [line for line in end.splitlines() if ".py" in line]
    assert line.split()[1:] == ["s", "2", "tests", "test_b.py"]
