"""Sources of bases: the form, runs with their history, previews, purge."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.bases import Bases
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.support.changing_site import ChangingSite
from tests.support.keyed_services import eventually
from tests.support.sources import LONG


@pytest.fixture
def pages(site: ChangingSite) -> ChangingSite:
    """The website, with two pages."""
    site.clear()
    site.article("/", "Start", f"The start page links to tea. {LONG * 3}", ["/tea"])
    site.article("/tea", "Tea <b>&", f"The page about tea. {LONG * 3}")
    return site


def source_of(pages: ChangingSite) -> dict[str, Any]:
    """A source that is the website."""
    return {"name": "docs", "type": "web", "web": {"startUrl": f"{pages.origin}/", "requestDelayMs": 0}}


def sources(open_tab: OpenTab, bases: Bases, base: str) -> Tab:
    """A tab with the sources of a base."""
    tab = open_tab(bases.url, f"#/bases/{base}/sources")
    tab.page.get_by_role("button", name="Add a source").wait_for()
    return tab


def test_a_source_is_added_with_errors_at_its_fields(open_tab: OpenTab, bases: Bases, pages: ChangingSite) -> None:
    base = bases.create("Follows later")
    tab = sources(open_tab, bases, base)
    tab.see("The base has no sources")
    tab.page.get_by_role("button", name="Add a source").click()
    tab.see("A source has to be saved before it can be run or previewed.")
    assert tab.page.get_by_role("button", name="Run now").count() == 0
    tab.page.get_by_label("Name *").fill("docs")
    tab.page.get_by_label("Start URL *").fill("nowhere")
    tab.page.get_by_role("button", name="Save").click()
    tab.page.locator("[aria-invalid=true]").wait_for()
    assert tab.page.get_by_label("Start URL *").get_attribute("aria-invalid") == "true"
    tab.page.get_by_label("Start URL *").fill(f"{pages.origin}/")
    tab.page.get_by_role("button", name="Save").click()
    tab.page.get_by_role("heading", name="docs").wait_for()

    assert bases.call("GET", f"/ragstore/rags/{base}").json()["sources"][0]["web"]["startUrl"] == f"{pages.origin}/"


def test_a_preview_stores_nothing_and_says_so(open_tab: OpenTab, bases: Bases, pages: ChangingSite) -> None:
    base = bases.create("Previewed", sources=[source_of(pages)])
    tab = sources(open_tab, bases, base)
    tab.page.get_by_role("button", name="Preview").click()
    preview = tab.page.get_by_role("region", name="Preview")
    preview.get_by_role("heading", name="Nothing is stored").wait_for()

    assert "Tea <b>&" in preview.inner_text()
    assert preview.get_by_role("cell", name="added").count() == 2
    assert sum(bases.states(base).values()) == 0


def test_a_run_is_followed_to_its_end_and_its_documents_are_purged(
    open_tab: OpenTab, bases: Bases, pages: ChangingSite
) -> None:
    base = bases.create("Run", sources=[source_of(pages)])
    tab = sources(open_tab, bases, base)
    tab.see("The source has not been run.")
    tab.page.get_by_role("button", name="Run now").click()
    history = tab.page.get_by_role("region", name="History")
    history.get_by_text("completed").wait_for()
    assert "2 added" in history.inner_text()
    tab.page.get_by_role("button", name="Delete its documents").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("docs")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    eventually(lambda: sum(bases.states(base).values()) == 0)


def test_a_run_in_progress_is_cancelled(open_tab: OpenTab, bases: Bases, pages: ChangingSite) -> None:
    slow = source_of(pages)
    slow["web"]["requestDelayMs"] = 60_000
    base = bases.create("Cancelled run", sources=[slow])
    tab = sources(open_tab, bases, base)
    tab.page.get_by_role("button", name="Run now").click()
    tab.page.get_by_role("button", name="Cancel run").click()
    tab.page.get_by_role("region", name="History").get_by_text("cancelled").wait_for()


def test_a_source_that_is_removed_leaves_its_base(open_tab: OpenTab, bases: Bases, pages: ChangingSite) -> None:
    base = bases.create("Without source", sources=[source_of(pages)])
    tab = sources(open_tab, bases, base)
    tab.page.get_by_role("button", name="Remove").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    tab.see("The base has no sources")

    assert bases.call("GET", f"/ragstore/rags/{base}").json()["sources"] == []
