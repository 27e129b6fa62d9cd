"""Kills during ingestion, one in each step. `make kills` runs many of them; see `tests/soak/kills.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.kills import STEPS, campaign

pytestmark = pytest.mark.process


async def test_no_kill_loses_repeats_or_half_shows_a_document_on_sqlite(tmp_path: Path) -> None:
    findings = await campaign(tmp_path, ("embed", "write", "publish"), seed=1, wait_for_all=False)
    assert findings.faults == []
    assert findings.kills.total() == 3


async def test_no_kill_loses_repeats_or_half_shows_a_document_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    findings = await campaign(tmp_path, STEPS, postgres_url=postgres_url, seed=2, wait_for_all=False)
    assert findings.faults == []
    assert findings.kills.total() == len(STEPS)
