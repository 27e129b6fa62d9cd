"""A document of a base: its text with the chunks marked, their list, and another chunking beside it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.page.bases import SPANS, Bases
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.support.keyed_services import eventually

LONG: Final = "\n\n".join(f"Paragraph {number}: tea 😀 is brewed in the kitchen, every day." for number in range(1500))

MARKED: Final = """name => [...(CSS.highlights.get(name) ?? [])].map(each => {
  const range = document.createRange();
  range.setStart(each.startContainer, each.startOffset);
  range.setEnd(each.endContainer, each.endOffset);
  return range.toString();
})"""


@pytest.fixture(scope="module")
def base(bases: Bases) -> str:
    """A base with documents."""
    documents = {"spans.txt": SPANS, "folder/long name?#%.txt": LONG}
    return bases.filled("Texts", documents, chunkSize=120, chunkOverlap=30)


def opened(open_tab: OpenTab, bases: Bases, base: str, name: str, query: str = "") -> Tab:
    """A tab with the text of a document."""
    tab = open_tab(bases.url, f"#/bases/{base}/documents/{quote(name, safe='')}{query}")
    tab.page.get_by_role("grid").wait_for()
    return tab


def drawn(text: str) -> str:
    """A text as the page draws it: hidden characters by their numbers."""
    return text.replace("\u200d", "U+200D")


def chunks(bases: Bases, base: str, name: str, **fields: object) -> list[dict[str, Any]]:
    """The chunks of a document."""
    body = {"documentName": name, "limit": 10_000, **fields}
    found: list[dict[str, Any]] = bases.call("POST", f"/ragstore/rags/{base}/split", json=body).json()["chunks"]
    return found


def text_of(bases: Bases, base: str, name: str) -> str:
    """The kept text of a document."""
    return str(bases.call("GET", f"/ragstore/rags/{base}/texts/{quote(name, safe='')}").json()["text"])


@pytest.mark.parametrize("name", ["spans.txt", "folder/long name?#%.txt"])
def test_each_mark_is_the_text_of_its_chunk(open_tab: OpenTab, bases: Bases, base: str, name: str) -> None:
    tab = opened(open_tab, bases, base, name)
    text = text_of(bases, base, name)
    expected = [drawn(text[each["start"] : each["end"]]) for each in chunks(bases, base, name)]
    marked = eventually(lambda: [tab.page.evaluate(MARKED, f"chunk-{tint}") for tint in range(3)])
    for tint in range(3):
        assert marked[tint] == expected[tint::3]
    assert len(expected) >= 20


def test_overlaps_are_marked(open_tab: OpenTab, bases: Bases, base: str) -> None:
    name = "folder/long name?#%.txt"
    tab = opened(open_tab, bases, base, name)
    text, all_ = text_of(bases, base, name), chunks(bases, base, name)
    overlaps = [text[after["start"] : before["end"]] for before, after in pairwise(all_)]

    assert eventually(lambda: tab.page.evaluate(MARKED, "chunk-overlap")) == [each for each in overlaps if each]


def test_the_chosen_chunk_is_marked_and_in_the_address(open_tab: OpenTab, bases: Bases, base: str) -> None:
    tab = opened(open_tab, bases, base, "spans.txt")
    text, found = text_of(bases, base, "spans.txt"), chunks(bases, base, "spans.txt")
    tab.page.get_by_role("row").nth(4).click()
    expected = drawn(text[found[3]["start"] : found[3]["end"]])

    assert eventually(lambda: tab.page.evaluate(MARKED, "chunk-chosen")) == [expected]
    assert tab.address().endswith("?chunk=3")


def test_the_list_follows_a_chunk_that_is_chosen_in_the_address(open_tab: OpenTab, bases: Bases, base: str) -> None:
    tab = opened(open_tab, bases, base, "folder/long name?#%.txt", "?chunk=500")
    tab.page.locator("[role=row][aria-selected=true]").get_by_text("500", exact=True).wait_for()


def test_a_chunk_in_the_address_is_scrolled_into_view(open_tab: OpenTab, bases: Bases, base: str) -> None:
    name = "folder/long name?#%.txt"
    last = len(chunks(bases, base, name)) - 2
    tab = opened(open_tab, bases, base, name, f"?chunk={last}")
    top = """() => {
      const range = [...CSS.highlights.get("chunk-chosen")][0];
      const live = document.createRange();
      live.setStart(range.startContainer, range.startOffset);
      const box = document.querySelector(".marked .text").getBoundingClientRect();
      return live.getBoundingClientRect().top - box.top < box.height;
    }"""
    eventually(lambda: tab.page.evaluate("CSS.highlights.get('chunk-chosen')?.size"))

    assert tab.page.evaluate("document.querySelector('.marked .text').scrollTop") > 1000
    assert tab.page.evaluate(top)


def test_a_click_in_the_text_chooses_its_chunk(open_tab: OpenTab, bases: Bases, base: str) -> None:
    tab = opened(open_tab, bases, base, "spans.txt")
    box = tab.page.locator(".marked .text").bounding_box()
    tab.page.mouse.click(box["x"] + 40, box["y"] + 90)
    eventually(lambda: "chunk=" in tab.address())

    assert eventually(lambda: tab.page.evaluate(MARKED, "chunk-chosen"))


def test_a_browser_without_highlights_shows_text_and_list(open_tab: OpenTab, bases: Bases, base: str) -> None:
    tab = open_tab(bases.url, "#/health")
    tab.page.add_init_script("delete CSS.__proto__.highlights; delete CSS.highlights; delete window.Highlight;")
    tab.page.goto("about:blank")
    tab.page.goto(f"{bases.url}/ui/#/bases/{base}/documents/spans.txt")
    tab.page.get_by_role("row").nth(4).click()
    tab.page.locator(".marked mark").first.wait_for()
    text, found = text_of(bases, base, "spans.txt"), chunks(bases, base, "spans.txt")
    marked = "".join(tab.page.locator(".marked mark").all_text_contents())

    assert marked == drawn(text[found[3]["start"] : found[3]["end"]])


def test_another_chunking_is_shown_side_by_side_and_nothing_is_stored(
    open_tab: OpenTab, bases: Bases, base: str
) -> None:
    tab = opened(open_tab, bases, base, "spans.txt")
    before = bases.call("GET", f"/ragstore/rags/{base}/documents").json()
    tab.page.get_by_role("button", name="Split differently").click()
    form = tab.page.get_by_role("form", name="Split differently")
    form.get_by_label("Chunk size").fill("400")
    form.get_by_label("Overlap").fill("0")
    form.get_by_role("button", name="Split").click()
    tried = chunks(bases, base, "spans.txt", chunkSize=400, chunkOverlap=0)
    tab.page.get_by_role("region", name="Tried").get_by_text(f"{len(tried)} chunks").wait_for()

    assert tab.page.get_by_role("region", name="As stored").get_by_text("chunks").count() == 1
    assert bases.call("GET", f"/ragstore/rags/{base}/documents").json() == before
    assert bases.call("GET", f"/ragstore/rags/{base}/versions").json()["total"] == 1


def test_a_chunking_that_cannot_be_is_named_at_the_form(open_tab: OpenTab, bases: Bases, base: str) -> None:
    tab = opened(open_tab, bases, base, "spans.txt")
    tab.page.get_by_role("button", name="Split differently").click()
    form = tab.page.get_by_role("form", name="Split differently")
    form.get_by_label("Overlap").fill("500")
    form.get_by_role("button", name="Split").click()
    form.get_by_role("alert").get_by_text("Must be less than chunkSize").wait_for()


def test_a_document_is_deleted(open_tab: OpenTab, bases: Bases) -> None:
    own = bases.filled("One deleted", {"a.txt": "tea", "b.txt": "pots"})
    tab = opened(open_tab, bases, own, "a.txt")
    tab.page.get_by_role("button", name="Delete document").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    tab.see("b.txt")

    assert [each["name"] for each in bases.call("GET", f"/ragstore/rags/{own}/documents").json()["documents"]] == [
        "b.txt"
    ]
