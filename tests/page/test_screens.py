"""The screenshots of docs/page.md: `make page-test PAGE="-k screens" SCREENS=write` writes them."""

from __future__ import annotations

import os
from typing import Final

import pytest

from tests.page.bases import Bases
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.support.pages import ROOT
from tests.support.servers import Served

FOLDER: Final = ROOT / "docs/page"
WRITES: Final = os.environ.get("SCREENS") == "write"

SCREENS: Final = {
    "collections": ("#/collections", "House handbook"),
    "documents": ("#/collections", "pitched roofs"),
    "bases": ("#/bases", "House handbook"),
    "base": ("#/bases/BASE", "handbook.md"),
    "document": ("#/bases/BASE/documents/handbook.md?chunk=8", "Colours mark the chunks"),
    "split": ("#/bases/BASE/documents/handbook.md", "Colours mark the chunks"),
    "settings": ("#/bases/BASE/settings", "Review changes"),
    "health": ("#/health", "Slowest operations of Chroma"),
}


def show(tab: Tab, name: str) -> None:
    """Bring a screen into the state of its picture."""
    if name == "bases":
        tab.page.get_by_role("row").filter(has_text="House handbook").get_by_text("Complete").wait_for()
    if name in ("document", "split"):
        tab.page.get_by_role("grid").wait_for()
    if name == "split":
        tab.page.get_by_role("button", name="Split differently").click()
        tab.page.get_by_label("Chunk size").fill("1200")
        tab.page.get_by_role("button", name="Split", exact=True).click()
        tab.page.get_by_role("region", name="Tried").get_by_role("grid").wait_for()
    if name == "settings":
        tab.page.get_by_label("Chunk size").fill("800")
        tab.page.get_by_label("Chunk strategy").select_option("markdown")
        tab.page.get_by_role("button", name="Review changes").click()
        tab.see("embedded again")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", SCREENS)
def test_each_screenshot_of_the_page_can_be_taken(
    open_tab: OpenTab, gateway: Served, bases: Bases, name: str, scheme: str
) -> None:
    path, text = SCREENS[name]
    (base,) = bases.call("GET", "/ragstore/rags/descriptors", params={"filter": "House handbook"}).json()
    path = path.replace("BASE", base["resource"].rpartition("/")[2].partition("?")[0])
    tab = open_tab(gateway.url, path, color_scheme=scheme, viewport={"width": 1180, "height": 720})
    if name == "documents":
        tab.page.get_by_role("gridcell", name="memory", exact=True).click()
        tab.page.get_by_role("row").nth(4).click()
        tab.page.get_by_role("region", name="Nearest documents").get_by_role("button").first.wait_for()
    else:
        tab.see(text)
    show(tab, name)
    picture = tab.page.screenshot()

    if WRITES:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}-{scheme}.png").write_bytes(picture)
    assert (FOLDER / f"{name}-{scheme}.png").exists()
