"""Runs files with few tests first, with several workers: `pytest --dist loadfile --no-loadscope-reorder`.

Tests of which a file has few start the most processes and take the longest. pytest-xdist gives files with many tests
out first, and at the end a worker runs a file of minutes while the others have nothing to do.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the files by their number of tests, in a worker. Tests of a file keep their order."""
    if hasattr(config, "workerinput"):
        counts: Counter[Path] = Counter(item.path for item in items)
        items.sort(key=lambda item: (counts[item.path], str(item.path)))
