"""Each test that docs/security.md names exists, and the page names each file of security tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", (TESTS.parent / "docs/security.md").read_text())


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_a_test_that_the_threat_model_names_exists(file: str, test: str) -> None:
    assert re.search(rf"^(?:async )?def {test}\(", (TESTS / file).read_text(), re.MULTILINE)


def test_the_threat_model_names_tests_of_every_file() -> None:
    files = {file for file, _ in NAMED}
    here = {f"security/{path.name}" for path in Path(__file__).parent.glob("test_*.py")}
    assert here - files == {"security/test_threat_model.py"}
