"""Lists of any length: few rows in the document, exact totals, and jumps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import httpx
import pytest

from tests.page.conftest import OpenTab
from tests.page.data import DOCUMENTS, LARGE
from tests.page.tab import Tab
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running, start_service

ROWS: Final = 60
HEAP_BYTES: Final = 50_000_000
MANY: Final = 1_000
"""Collections of the service with many. Embedded Chroma creates about 100 in a second."""


def listed(open_tab: OpenTab, store: Served) -> Tab:
    """A tab with the list of 10,000 documents."""
    tab = open_tab(store.url, f"#/collections/{LARGE}")
    tab.see("handbook:00003")
    return tab


def rows(tab: Tab) -> int:
    """The number of rows in the document."""
    return int(tab.page.get_by_role("row").count())


def test_few_rows_of_a_long_list_are_in_the_document(open_tab: OpenTab, store: Served) -> None:
    tab = listed(open_tab, store)

    assert rows(tab) <= ROWS
    # The row of the titles counts, too.
    assert tab.page.get_by_role("grid").get_attribute("aria-rowcount") == str(DOCUMENTS + 1)


def test_end_reaches_the_last_row_with_one_request(open_tab: OpenTab, store: Served) -> None:
    tab = listed(open_tab, store)
    before = len(tab.requests)
    tab.page.get_by_role("grid").focus()
    tab.page.keyboard.press("End")
    tab.see(f"handbook:{DOCUMENTS - 1:05}")

    assert len(tab.requests) - before <= 2
    assert rows(tab) <= ROWS


def test_scrolling_loads_what_is_seen_and_not_what_is_passed(open_tab: OpenTab, store: Served) -> None:
    tab = listed(open_tab, store)
    before = len(tab.requests)
    tab.page.evaluate(
        """async () => {
          const grid = document.getElementById("documents");
          for (let step = 0; step < 60; step += 1) {
            grid.scrollTop += 5200;
            await new Promise(requestAnimationFrame);
          }
        }"""
    )
    tab.see("handbook:06000")

    assert len(tab.requests) - before <= 30
    assert rows(tab) <= ROWS


def test_a_list_that_was_scrolled_to_its_end_takes_little_memory(open_tab: OpenTab, store: Served) -> None:
    tab = listed(open_tab, store)
    tab.page.get_by_role("grid").focus()
    for _ in range(40):
        tab.page.keyboard.press("PageDown")
    tab.page.wait_for_timeout(500)

    assert tab.page.evaluate("performance.memory.usedJSHeapSize") <= HEAP_BYTES


@pytest.fixture(scope="module")
@starts_process
def many_collections(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A store with many collections."""
    with running(start_service(tmp_path_factory.mktemp("page-many"))) as served:
        with httpx.Client(base_url=served.url, timeout=60) as http:
            for number in range(MANY):
                http.post("/collections", json={"name": f"collection-{number:05}"}).raise_for_status()
        yield served


def test_many_collections_are_a_list_like_any_other(open_tab: OpenTab, many_collections: Served) -> None:
    tab = open_tab(many_collections.url)
    tab.page.get_by_role("row").nth(5).wait_for()

    assert tab.page.get_by_role("grid").get_attribute("aria-rowcount") == str(MANY + 1)
    assert rows(tab) <= ROWS


def test_a_collection_among_many_is_found_by_a_part_of_its_name(open_tab: OpenTab, many_collections: Served) -> None:
    tab = open_tab(many_collections.url)
    tab.page.get_by_label("Find by name").fill("00777")
    tab.page.get_by_role("gridcell", name="collection-00777").wait_for()

    assert tab.page.get_by_role("grid").get_attribute("aria-rowcount") == "2"
