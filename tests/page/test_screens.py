"""The screenshots of docs/page.md: `make page-test PAGE="-k screens" SCREENS=write` writes them."""

from __future__ import annotations

import os
from typing import Final

import pytest

from tests.page.conftest import OpenTab
from tests.support.pages import ROOT
from tests.support.servers import Served

FOLDER: Final = ROOT / "docs/page"
WRITES: Final = os.environ.get("SCREENS") == "write"

SCREENS: Final = {
    "collections": ("#/collections", "House handbook"),
    "documents": ("", "pitched roofs"),
    "health": ("#/health", "Slowest operations of Chroma"),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", SCREENS)
def test_each_screenshot_of_the_page_can_be_taken(open_tab: OpenTab, gateway: Served, name: str, scheme: str) -> None:
    path, text = SCREENS[name]
    tab = open_tab(gateway.url, path, color_scheme=scheme, viewport={"width": 1180, "height": 720})
    if name == "documents":
        tab.page.get_by_role("gridcell", name="memory", exact=True).click()
        tab.page.get_by_role("row").nth(4).click()
        tab.page.get_by_role("region", name="Nearest documents").get_by_role("button").first.wait_for()
    else:
        tab.see(text)
    picture = tab.page.screenshot()

    if WRITES:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}-{scheme}.png").write_bytes(picture)
    assert (FOLDER / f"{name}-{scheme}.png").exists()
