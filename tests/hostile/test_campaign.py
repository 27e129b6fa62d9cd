"""A short campaign over each store; `make hostile` runs a longer one."""

from __future__ import annotations

import pytest

from tests.hostile import campaign


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
