"""The page about the web publishes what the benchmark of extraction measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.extraction import mean_f1, measure, quality, table

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "web.md").read_text()


@pytest.mark.process
async def test_the_published_quality_is_the_measured_one_and_better_than_without_tags() -> None:
    measured = await measure()
    assert len(measured) == 20
    assert table(measured) + "\n" in PAGE
    assert mean_f1([page.gateway for page in measured]) > mean_f1([page.plain for page in measured])


def test_the_quality_compares_words_and_characters_of_scripts_without_spaces() -> None:
    same = quality("Tea, tea 日本", "tea tea 日本")
    half = quality("tea", "Tea and 日")
    assert (same.precision, same.recall, same.f1) == (1.0, 1.0, 1.0)
    assert (half.precision, half.recall, half.f1) == (1.0, 1 / 3, 0.5)
