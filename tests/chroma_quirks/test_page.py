"""The page of quirks."""

from __future__ import annotations

from scripts import quirks_page


def test_the_page_of_quirks_is_current() -> None:
    assert quirks_page.PAGE.read_text() == quirks_page.page(), "run: python -m scripts.quirks_page"
