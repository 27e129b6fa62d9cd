"""The page about embeddings publishes what the benchmark measures."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.embedding_model import QuestionSet, handbook, helpdesk, quality
from ragstore_gateway.embeddings.providers.declared import PROVIDERS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "embeddings.md").read_text()
SETS = (handbook(), helpdesk("en"), helpdesk("de"))


# Not of the fast tier: builtin/e5-small needs half a minute of processor time.
@pytest.mark.process
@pytest.mark.parametrize("test_set", SETS, ids=lambda test_set: str(test_set.name))
def test_the_published_quality_is_the_measured_one(test_set: QuestionSet) -> None:
    for row in quality(test_set):
        assert row + "\n" in PAGE


def test_the_page_lists_every_provider() -> None:
    for provider in PROVIDERS:
        assert f"\n| `{provider}` | " in PAGE
