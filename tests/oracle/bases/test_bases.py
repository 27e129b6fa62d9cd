"""Some operations of the oracle of knowledge bases; `make oracle-gateway` runs 20,000."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle.bases.campaign import campaign

pytestmark = pytest.mark.process


async def test_knowledge_bases_and_the_model_are_the_same_after_a_kill_on_sqlite(tmp_path: Path) -> None:
    figures = await campaign(tmp_path, "", 1, first_seed=1, length=150)
    assert figures.differences == []
    assert figures.kills == 1


async def test_knowledge_bases_and_the_model_are_the_same_after_a_kill_on_postgresql(
    tmp_path: Path, postgres_url: str
) -> None:
    figures = await campaign(tmp_path, postgres_url, 1, first_seed=2, length=150)
    assert figures.differences == []
    assert figures.kills == 1
