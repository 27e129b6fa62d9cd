"""The tests that docs/reliability.md names exist, and it names each test that reports figures."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs" / "reliability.md").read_text()
NAMED = {(file, test) for file, test in re.findall(r"`(test_\w+\.py)::(test_\w+)`", PAGE)}


def test_the_faults_are_shown_by_exactly_the_tests_that_report_figures() -> None:
    reporting = {
        (path.name, test)
        for path in (TESTS / "system").glob("test_*.py")
        for test in re.findall(r"^async def (test_\w+)\([^)]*\breport: Report\b", path.read_text(), re.M)
    }
    assert reporting
    assert reporting == NAMED


def test_every_row_of_the_faults_names_its_test() -> None:
    table = PAGE[PAGE.index("| fault | test |") :].split("\n\n")[0].splitlines()[2:]
    assert len(table) >= 16
    assert [row for row in table if not re.search(r"^\| [^|]+ \| `test_\w+\.py::test_\w+` \|", row)] == []


def test_files_of_tests_that_the_page_names_are_there() -> None:
    for file in set(re.findall(r"`(test_\w+\.py)`", PAGE)):
        assert (TESTS / "system" / file).is_file(), file


def test_tests_of_other_folders_that_the_page_names_exist() -> None:
    elsewhere = re.findall(r"`(\w+/[\w/]+\.py)::(test_\w+)`", PAGE)
    assert elsewhere
    for file, test in elsewhere:
        assert re.search(rf"^(?:async )?def {test}\(", (TESTS / file).read_text(), re.M), f"{file}::{test}"
