"""The map of a collection: drawn, refined, read by pointer and by keyboard, and what it says if there is none."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote

import httpx
import pytest

from tests.page.conftest import OpenTab
from tests.page.data import DOCUMENTS, LARGE
from tests.page.maps import (
    CLUSTERS,
    PER_TOPIC,
    SENTENCES,
    TOPICS,
    arranged,
    draw_around,
    listed,
    picture,
    places,
)
from tests.page.tab import Tab
from tests.page.test_keyboard import active, focused, press, tab_to
from tests.support.keyed_services import KeyedService, eventually
from tests.support.servers import Served


def mapped(open_tab: OpenTab, served: Served, collection: str = CLUSTERS, query: str = "", **options: Any) -> Tab:
    """A tab with a refined map."""
    return arranged(open_tab(served.url, f"#/collections/{collection}/map{query}", **options))


def choose_colour(tab: Tab, field: str) -> None:
    """Colour the map by a field, and wait for it."""
    tab.page.get_by_label("Colour by").select_option(field)
    eventually(lambda: "Documents" not in tab.page.get_by_role("list", name="Legend").inner_text())


RECORD: Final = """
() => {
  window.pictures = new Set();
  const look = () => {
    const canvas = document.querySelector("canvas");
    if (canvas) pictures.add(canvas.toDataURL());
    requestAnimationFrame(look);
  };
  look();
}
"""


def recorded(open_tab: OpenTab, served: Served, **options: Any) -> tuple[Tab, list[str]]:
    """A tab with a refined map, and the pictures that were drawn."""
    tab = open_tab(served.url, f"#/collections/{CLUSTERS}", **options)
    tab.see("d3")
    tab.page.evaluate(RECORD)
    tab.page.get_by_role("link", name="Map").click()
    arranged(tab)
    last = picture(tab)
    eventually(lambda: last in tab.page.evaluate("[...pictures]"))
    return tab, tab.page.evaluate("[...pictures]")


def test_the_projection_is_drawn_and_then_refined_while_it_moves(open_tab: OpenTab, clusters: Served) -> None:
    tab, seen = recorded(open_tab, clusters)

    assert len(places(tab)) > TOPICS * PER_TOPIC
    assert len(seen) > 3


def test_the_same_data_make_the_same_map(open_tab: OpenTab, clusters: Served) -> None:
    pictures = {picture(mapped(open_tab, clusters)) for _ in range(3)}

    assert len(pictures) == 1


def test_without_motion_only_the_projection_and_the_refined_map_are_drawn(open_tab: OpenTab, clusters: Served) -> None:
    tab, seen = recorded(open_tab, clusters, reduced_motion="reduce")

    # The canvas is empty before its first frame.
    assert 2 <= len(seen) <= 3
    assert picture(tab) == picture(mapped(open_tab, clusters))


def test_the_text_of_a_document_is_read_below_the_pointer(open_tab: OpenTab, clusters: Served) -> None:
    tab = mapped(open_tab, clusters)
    tab.see("Point at a document to read it")
    before = len(tab.requests)
    tab.page.mouse.move(*places(tab)[0])
    shown = tab.page.locator(".map-text")
    shown.get_by_text("A text about topic").wait_for()

    assert len(tab.requests) - before == 1
    tab.page.mouse.move(2, 2)
    tab.see("Point at a document to read it")


def test_a_click_opens_the_document_and_escape_returns_to_its_row(open_tab: OpenTab, clusters: Served) -> None:
    tab = mapped(open_tab, clusters)
    tab.page.mouse.click(*places(tab)[-1])
    panel = tab.page.get_by_role("complementary", name="Document")
    panel.get_by_text("A text about topic").wait_for()
    opened = panel.get_by_role("heading").first.inner_text()
    assert f"id={opened}" in unquote(tab.address())
    eventually(lambda: tab.page.locator(".grid-row.open").inner_text().startswith(opened))
    press(tab, "Escape")
    panel.wait_for(state="detached")

    assert focused(tab) == "grid#map-documents"
    assert active(tab).startswith(opened)


def test_a_line_around_points_lists_them(open_tab: OpenTab, clusters: Served) -> None:
    tab = mapped(open_tab, clusters)
    drawn = places(tab)
    assert listed(tab) == TOPICS * PER_TOPIC
    (left, right), (top, bottom) = ((min(axis) - 8, max(axis) + 8) for axis in zip(*drawn, strict=True))
    middle = sorted(x for x, _ in drawn)[len(drawn) // 2]
    draw_around(tab, [(left, top), (middle, top), (middle, bottom), (left, bottom)])
    tab.see("documents of the map")
    half = listed(tab)
    assert 0 < half < TOPICS * PER_TOPIC
    faint = len(places(tab))
    assert faint < len(drawn)
    draw_around(tab, [(left, top), (right, top), (right, bottom), (left, bottom)])
    eventually(lambda: listed(tab) == TOPICS * PER_TOPIC)
    draw_around(tab, [(left, top), (left + 5, top), (left + 5, top + 5)])
    tab.see("No document is within the line")
    tab.page.get_by_role("button", name="Show all").click()
    eventually(lambda: listed(tab) == TOPICS * PER_TOPIC)


def test_a_field_colours_the_points_and_its_values_list_them(open_tab: OpenTab, clusters: Served) -> None:
    tab = mapped(open_tab, clusters)
    plain = picture(tab)
    choose_colour(tab, "kind")
    legend = tab.page.get_by_role("list", name="Legend").get_by_role("button")
    # Topics are numbered from 0 to 19.
    expected = {f"kind {kind}": PER_TOPIC * len(range(kind, TOPICS, 3)) for kind in range(3)}
    labels = [legend.nth(number).inner_text().split() for number in range(legend.count())]

    assert {f"{kind} {value}": int(count) for _, kind, value, count in labels} == expected
    assert len({form for form, *_ in labels}) == len(labels)
    assert picture(tab) != plain
    assert "color=kind" in tab.address()
    legend.filter(has_text="kind 2").click()
    eventually(lambda: listed(tab) == expected["kind 2"])
    assert legend.filter(has_text="kind 2").get_attribute("aria-pressed") == "true"
    cells = tab.page.locator("#map-documents .c-meta:not([role=columnheader])")
    eventually(lambda: set(cells.all_inner_texts()) == {"kind 2"})


def test_many_numbers_are_ranges_and_many_texts_have_a_rest(open_tab: OpenTab, clusters: Served) -> None:
    tab = mapped(open_tab, clusters, query="?color=rank")
    legend = tab.page.get_by_role("list", name="Legend").get_by_role("button")
    assert legend.count() == 6
    assert "0 to 99" in legend.first.inner_text()
    choose_colour(tab, "topic")
    # Numbers with many values are ranges, too: none of them is a group of its own.
    eventually(lambda: "0 to " in legend.first.inner_text())


def test_the_points_stay_where_they_are_with_other_colours(open_tab: OpenTab, clusters: Served) -> None:
    tab = mapped(open_tab, clusters)
    place = places(tab)[40]
    shown = tab.page.locator(".map-text .mono")
    tab.page.mouse.move(*place)
    before = shown.inner_text()
    states: list[str] = []
    tab.page.expose_function("noted", lambda state: states.append(state))  # Playwright sets an attribute of it
    tab.page.evaluate(
        """() => new MutationObserver(() => noted(document.querySelector(".map [role=status]").innerText))
          .observe(document.querySelector(".map"), {subtree: true, characterData: true, childList: true})"""
    )
    choose_colour(tab, "kind")
    tab.page.mouse.move(2, 2)
    tab.page.mouse.move(*place)

    assert shown.inner_text() == before
    assert not [state for state in states if "Arranging" in state]


def test_a_question_is_shown_above_its_neighbours(open_tab: OpenTab, sentences: Served) -> None:
    tab = mapped(open_tab, sentences, SENTENCES)
    before = picture(tab)
    tab.page.get_by_label("Question").fill("How often is the boiler serviced?")
    tab.page.get_by_role("button", name="Show", exact=True).click()
    tab.see("15 documents, nearest first")
    first = tab.page.locator("#map-documents-0")
    first.get_by_text("boiler").wait_for()

    assert listed(tab) == 15
    assert picture(tab) != before


def test_a_document_is_shown_above_its_neighbours(open_tab: OpenTab, clusters: Served) -> None:
    tab = mapped(open_tab, clusters)
    tab.page.get_by_label("Document id").fill("d7")
    tab.page.get_by_label("Document id").press("Enter")
    tab.see("15 documents, nearest first")
    assert tab.page.locator("#map-documents-0").inner_text().startswith("d7")
    tab.page.get_by_label("Document id").fill("nowhere")
    tab.page.get_by_label("Document id").press("Enter")
    tab.page.get_by_role("alert").get_by_text("There is no document with this id").wait_for()


def test_the_list_is_the_map_for_the_keyboard(open_tab: OpenTab, clusters: Served) -> None:
    tab = mapped(open_tab, clusters)
    tab.page.locator("#map-documents-3").wait_for()
    tab_to(tab, "grid#map-documents")
    before = picture(tab)
    press(tab, "ArrowDown", "ArrowDown")
    assert active(tab).startswith("d2")
    # The active row has a ring on the map.
    eventually(lambda: picture(tab) != before)
    press(tab, "Enter")
    panel = tab.page.get_by_role("complementary", name="Document")
    panel.get_by_role("heading", name="d2", exact=True).wait_for()
    press(tab, "ArrowDown")
    panel.get_by_role("heading", name="d3", exact=True).wait_for()
    press(tab, "Escape")
    assert focused(tab) == "grid#map-documents"
    press(tab, "End")
    tab.see(f"d{TOPICS * PER_TOPIC - 1}")
    press(tab, "Tab")
    assert tab.page.evaluate("document.activeElement.closest('[role=grid]')") is None
    assert tab.page.locator("canvas[tabindex]").count() == 0


def test_the_values_of_a_field_are_chosen_without_a_mouse(open_tab: OpenTab, clusters: Served) -> None:
    tab = mapped(open_tab, clusters, query="?color=kind")
    tab.page.get_by_role("button", name="kind 1").focus()
    press(tab, "Enter")

    eventually(lambda: listed(tab) == PER_TOPIC * len(range(1, TOPICS, 3)))


def test_a_filter_makes_a_map_of_its_matches(open_tab: OpenTab, clusters: Served) -> None:
    tab = mapped(open_tab, clusters, query='?where={"topic": 4}')
    tab.see("topic is 4")
    assert listed(tab) == PER_TOPIC
    tab.show(f'#/collections/{CLUSTERS}/map?where={{"topic": 99}}')
    tab.see("No document matches")


def test_a_part_of_a_large_collection_is_named(open_tab: OpenTab, store: Served) -> None:
    tab = mapped(open_tab, store, LARGE, "?points=500")

    tab.see(f"500 of {DOCUMENTS:,} documents, evenly over the collection")
    assert listed(tab) == 500
    tab.page.get_by_label("Document id").fill("handbook:00003")
    tab.page.get_by_label("Document id").press("Enter")
    tab.see("15 documents, nearest first")


def test_a_map_is_made_again(open_tab: OpenTab, clusters: Served) -> None:
    with httpx.Client(base_url=clusters.url, timeout=60) as http:
        few = [{"id": f"again-{number}", "text": "", "embedding": [1, number]} for number in range(40)]
        http.post("/collections", json={"name": "again"}).raise_for_status()
        http.post("/collections/again/documents", json={"documents": few[:20]}).raise_for_status()
        tab = mapped(open_tab, clusters, "again")
        before = picture(tab)
        assert listed(tab) == 20
        http.post("/collections/again/documents", json={"documents": few[20:]}).raise_for_status()
    tab.see("As of ")
    tab.page.get_by_role("button", name="Map again").click()
    eventually(lambda: listed(tab) == 40)
    arranged(tab)
    assert picture(tab) != before


def test_one_document_is_a_map(open_tab: OpenTab, clusters: Served) -> None:
    tab = mapped(open_tab, clusters, "one")
    drawn = places(tab)
    assert drawn
    tab.page.mouse.click(*drawn[len(drawn) // 2])

    tab.page.get_by_role("complementary", name="Document").get_by_text("The only document").wait_for()


def test_a_collection_without_documents_has_no_map(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, "#/collections/notes-empty/map")
    tab.see("The collection has no documents")

    assert tab.page.locator("canvas").count() == 0


@contextmanager
def busy(served: Served) -> Iterator[None]:
    """Make large maps in this block, one after the other."""
    done = threading.Event()

    def make_maps(first: int) -> None:
        with httpx.Client(base_url=served.url, timeout=120) as http:
            # Another filter is another map: none is taken from the cache.
            for number in itertools.count(first, 2):
                if done.is_set():
                    return
                http.post(f"/collections/{LARGE}/map", json={"points": DOCUMENTS, "where": {"page": {"$gte": -number}}})

    threads = [threading.Thread(target=make_maps, args=[first]) for first in (1, 2)]
    for thread in threads:
        thread.start()
    yield
    done.set()
    for thread in threads:
        thread.join()


def test_a_map_waits_while_another_one_is_made(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, f"#/collections/{LARGE}")
    tab.see("handbook:00003")
    alert = tab.page.get_by_role("alert").get_by_text("Another map is being made")
    with busy(store):
        # A request may come between two of the others.
        for page in range(10):
            tab.show(f'#/collections/{LARGE}/map?points=500&where={{"page": {{"$gte": {page}}}}}')
            alert.or_(tab.page.locator("canvas")).wait_for()
            if alert.count():
                break
            tab.show(f"#/collections/{LARGE}")
            tab.see("handbook:00003")
        tab.page.get_by_role("alert").get_by_text("Again in ").wait_for()
    # Without a reload, one of the next attempts succeeds.
    arranged(tab)


def test_a_key_without_the_collection_has_no_map_of_it(open_tab: OpenTab, keyed: KeyedService) -> None:
    tab = open_tab(keyed.served.url)
    tab.page.get_by_label("Key").fill(keyed.keys["guest"])
    tab.page.get_by_role("button", name="Sign in").click()
    tab.see("notes-empty")
    tab.show(f"#/collections/{LARGE}/map")
    tab.page.get_by_role("alert").wait_for()
    assert tab.page.locator("canvas").count() == 0
    assert not [each for each in tab.requests if each.endswith("/map")]
    tab.show("#/collections/notes/map")
    arranged(tab)

    assert listed(tab) == 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forced_colours_draw_the_points_in_the_colour_of_text(open_tab: OpenTab, clusters: Served, scheme: str) -> None:
    tab = mapped(open_tab, clusters, query="?color=kind", forced_colors="active", color_scheme=scheme)
    x, y = places(tab)[0]
    box = tab.page.locator("canvas").bounding_box()
    pixel = tab.page.locator("canvas").evaluate(
        "(canvas, [x, y]) => canvas.getContext('2d').getImageData(x, y, 1, 1).data.slice(0, 3).join(', ')",
        [int(x - box["x"]), int(y - box["y"])],
    )

    assert f"rgb({pixel})" == tab.page.locator("canvas").evaluate("canvas => getComputedStyle(canvas).color")
