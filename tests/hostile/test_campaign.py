"""A short campaign over each store; `make hostile` runs a longer one."""

from __future__ import annotations

import pytest

from tests.hostile import campaign
from tests.hostile.suites import SUITES, Suite, run_suite
from tests.support.pages import ROOT


@pytest.mark.parametrize("store", ["embedded", "remote"])
def test_a_short_campaign_finds_nothing(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    areas = ("oracle", "http", "collections")
    code = campaign.main(["--store", store, "--areas", *areas, "--seconds", "3", "--collections", "10"])
    printed = capsys.readouterr().out
    assert code == 0, printed
    assert f"{store}: passed" in printed


def test_a_service_beyond_its_memory_limit_fails(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--store", "embedded", "--areas", "collections", "--collections", "40", "--memory-mib", "150"]
    assert campaign.main(options) == 1
    assert "WRONG" in capsys.readouterr().out


def test_keys_faults_and_quotas_are_areas_whose_tests_exist() -> None:
    assert list(SUITES) == ["keys", "faults", "quotas"]
    for suite in SUITES.values():
        assert all((ROOT / test).exists() for test in suite.tests)


def test_a_suite_is_counted_and_its_failures_are_findings() -> None:
    passed = run_suite("one", Suite(("tests/unit/test_scores.py",)), 1024)
    failed = run_suite("two", Suite(("tests/unit/absent.py",)), 1024)
    assert not passed.wrong
    assert int(passed.figures["one, tests passed"]) > 0
    assert "two: exit code 4" in failed.wrong[0]
