"""The page of quirks."""

from __future__ import annotations

import importlib
from pathlib import Path

from scripts import quirks_page
from tests.chroma_quirks.elsewhere import ELSEWHERE
from tests.chroma_quirks.quirk import SHOWN


def _exists(name: str) -> bool:
    """Whether a module exists, and holds the function or constant that follows the colon."""
    module, _, attribute = name.partition(":")
    try:
        source = importlib.import_module(module).__file__
    except ModuleNotFoundError:
        return False
    return source is not None and attribute in Path(source).read_text()


def test_the_page_of_quirks_is_current() -> None:
    assert quirks_page.PAGE.read_text() == quirks_page.page(), "run: python -m scripts.quirks_page"


def test_the_code_that_quirks_name_exists() -> None:
    quirks_page.page()  # imports every test of a quirk
    quirks = [*(quirk for quirk, _ in SHOWN.values()), *ELSEWHERE]
    assert [name for quirk in quirks for name in quirk.works_around if not _exists(name)] == []
