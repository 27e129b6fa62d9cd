"""Kills during ingestion, one in each step. `make kills` runs many of them; see `tests/soak/kills.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.kills import campaign

pytestmark = pytest.mark.process


# Together, each step once.
ON_SQLITE = ("accept", "extract", "embed", "clean up")
ON_POSTGRESQL = ("split", "write", "publish")
SIZES = (3, 40)


async def test_no_kill_loses_repeats_or_half_shows_a_document_on_sqlite(tmp_path: Path) -> None:
    findings = await campaign(tmp_path, ON_SQLITE, seed=1, wait_for_all=False, sizes=SIZES)
    assert findings.faults == []
    assert findings.kills.total() == len(ON_SQLITE)


async def test_no_kill_loses_repeats_or_half_shows_a_document_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    findings = await campaign(
        tmp_path, ON_POSTGRESQL, postgres_url=postgres_url, seed=2, wait_for_all=False, sizes=SIZES
    )
    assert findings.faults == []
    assert findings.kills.total() == len(ON_POSTGRESQL)
