"""Accessibility of each screen: axe's rules of WCAG 2.2 AA and best practices, narrow windows, large text."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.page.bases import Bases
from tests.page.chats import QUESTION, Chats, ask
from tests.page.conftest import OpenTab
from tests.page.data import LARGE
from tests.page.tab import NARROW, Tab
from tests.support.fake_upstream import Behaviour, hang, responding, stream_of
from tests.support.keyed_services import KeyedService
from tests.support.servers import Served

SCREENS: Final = {
    "list": ("#/collections", "notes"),
    "documents": (f"#/collections/{LARGE}", "handbook:00003"),
    "document": (f"#/collections/{LARGE}/documents?id=handbook:00003", "Passage 3."),
    "no document": (f"#/collections/{LARGE}/documents?id=nowhere", "There is no document with this id"),
    "no match": (f'#/collections/{LARGE}/documents?where={{"page":99}}', "No document matches"),
    "no documents": ("#/collections/notes-empty", "The collection has no documents"),
    "query": (f"#/collections/{LARGE}/query", "Id of a document"),
    "map": (f"#/collections/{LARGE}/map?points=500&color=section", "Near points are similar"),
    "map and document": (f"#/collections/{LARGE}/map?points=500&id=handbook:00003", "Passage 3."),
    "no map": ("#/collections/notes-empty/map", "The collection has no documents"),
    "settings": (f"#/collections/{LARGE}/settings", "Rebuild index"),
    "error": ("#/collections/no-such-collection", "no-such-collection"),
    "health": ("#/health", "Slowest operations of Chroma"),
    "unknown area": ("#/nowhere", "There is no such area."),
}


def opened(open_tab: OpenTab, store: Served, screen: str, **options: Any) -> Tab:
    """A tab that shows a screen."""
    path, text = SCREENS[screen]
    tab = open_tab(store.url, path, **options)
    tab.see(text)
    return tab


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_no_fault(open_tab: OpenTab, store: Served, screen: str, scheme: str) -> None:
    assert opened(open_tab, store, screen, color_scheme=scheme).faults() == []


@pytest.mark.parametrize("path", ["#/collections", "#/health"])
def test_axe_finds_no_fault_in_the_gateways_page(open_tab: OpenTab, gateway: Served, path: str) -> None:
    tab = open_tab(gateway.url, path)
    tab.see("House handbook" if path == "#/collections" else "Embedding model")

    assert tab.faults() == []


BASE_SCREENS: Final = {
    "bases": ("#/bases", "House handbook"),
    "new base": ("#/bases/new", "Chunk strategy"),
    "base": ("#/bases/BASE", "handbook.md"),
    "no document": ("#/bases/BASE?name=nowhere", "No document matches"),
    "document": ("#/bases/BASE/documents/handbook.md?chunk=3", "Colours mark the chunks"),
    "no such document": ("#/bases/BASE/documents/nowhere", "has no document"),
    "try": ("#/bases/BASE/try", "Question"),
    "settings": ("#/bases/BASE/settings", "Review changes"),
    "sources": ("#/bases/BASE/sources", "The base has no sources"),
    "versions": ("#/bases/BASE/versions", "Duplicate version 1"),
    "empty base": ("#/bases/EMPTY", "The base has no documents"),
    "no base": ("#/bases/nowhere", "There is no knowledge base"),
}


@pytest.fixture(scope="module")
def ids(bases: Bases) -> dict[str, str]:
    """The ids of a base with a document, and of one without."""
    listed = bases.call("GET", "/ragstore/rags/descriptors", params={"filter": "House handbook"}).json()
    base = next(each["resource"] for each in listed if each["name"] == "House handbook")
    return {"BASE": base.rpartition("/")[2].partition("?")[0], "EMPTY": bases.create("Empty base")}


def show_base(tab: Tab, ids: dict[str, str], screen: str) -> None:
    """Show a screen of the knowledge bases in an open tab."""
    path, text = BASE_SCREENS[screen]
    for name, value in ids.items():
        path = path.replace(name, value)
    # The screen before may have the same text.
    tab.show("#/nowhere")
    tab.see("There is no such area.")
    tab.show(path)
    tab.see(text)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_in_the_knowledge_bases(
    open_tab: OpenTab, bases: Bases, ids: dict[str, str], scheme: str
) -> None:
    tab = open_tab(bases.url, color_scheme=scheme)
    found = {}
    for screen in BASE_SCREENS:
        show_base(tab, ids, screen)
        found[screen] = tab.faults()

    assert found == {screen: [] for screen in BASE_SCREENS}


@pytest.mark.parametrize(("viewport", "size"), [(NARROW, "100%"), ({"width": 640, "height": 800}, "200%")])
def test_the_knowledge_bases_do_not_scroll_sideways(
    open_tab: OpenTab, bases: Bases, ids: dict[str, str], viewport: dict[str, int], size: str
) -> None:
    tab = open_tab(bases.url, viewport=viewport)
    tab.page.evaluate("size => { document.documentElement.style.fontSize = size; }", size)
    wide = []
    for screen in BASE_SCREENS:
        show_base(tab, ids, screen)
        wide += [screen] if tab.overflows() else []

    assert wide == []


def test_axe_finds_no_fault_in_the_forms_of_knowledge_bases(
    open_tab: OpenTab, bases: Bases, ids: dict[str, str]
) -> None:
    tab = open_tab(bases.url)
    show_base(tab, ids, "document")
    tab.page.get_by_role("button", name="Split differently").click()
    tab.page.get_by_role("button", name="Split", exact=True).click()
    tab.page.get_by_role("region", name="Tried").get_by_role("grid").wait_for()
    assert tab.faults() == []
    tab.show(f"#/bases/{ids['BASE']}/settings")
    tab.page.get_by_label("Chunk size").fill("10")
    tab.page.get_by_role("button", name="Review changes").click()
    tab.see("embedded again")
    assert tab.faults() == []
    tab.page.get_by_role("button", name="Save as version 2").click()
    tab.see("Must be less than chunkSize")
    assert tab.faults() == []
    tab.show(f"#/bases/{ids['EMPTY']}/sources")
    tab.page.get_by_role("button", name="Add a source").click()
    tab.page.get_by_label("Start URL").wait_for()
    assert tab.faults() == []
    tab.show(f"#/bases/{ids['BASE']}/try")
    tab.page.get_by_label("Question").fill("How often is the boiler serviced?")
    tab.page.get_by_role("button", name="Search").click()
    tab.page.get_by_role("region", name="Results").wait_for()
    assert tab.faults() == []
    tab.show(f"#/bases/{ids['BASE']}/versions")
    tab.page.get_by_role("button", name="Duplicate version 1").click()
    assert tab.faults() == []


def test_axe_finds_no_fault_while_a_base_is_loaded(open_tab: OpenTab, bases: Bases, ids: dict[str, str]) -> None:
    tab = open_tab(bases.url, "#/health")
    tab.see("Embedding model")
    tab.page.route("**/documents?*", lambda route: None)
    tab.show(f"#/bases/{ids['BASE']}")
    tab.page.get_by_role("status", name="Loading").wait_for()

    assert tab.faults() == []


ASK_SCREENS: Final = ("empty", "reply", "passage", "running", "error", "base")


def show_ask(tab: Tab, chats: Chats, screen: str) -> None:
    """Show a screen of the area Ask in an open tab."""
    tab.show("#/nowhere")
    tab.see("There is no such area.")
    tab.show(f"#/ask?base={chats.base}" if screen == "base" else "#/ask?model=rag/cook")
    tab.page.locator("select:enabled").wait_for()
    replies: dict[str, Behaviour] = {"running": hang, "error": responding(b"{}", "500 Internal Server Error")}
    chats.reply(replies.get(screen, stream_of(MARKDOWN)))
    if screen != "empty":
        ask(tab)
    if screen == "running":
        tab.page.get_by_role("button", name="Stop").wait_for()
    elif screen == "error":
        tab.page.get_by_role("alert").wait_for()
    elif screen != "empty":
        tab.page.get_by_role("button", name="Open passage 1").first.wait_for()
    if screen == "passage":
        tab.page.get_by_role("button", name="Open passage 1").first.click()
        tab.page.get_by_role("complementary", name="Passage").locator(".text").wait_for()


def clear_ask(tab: Tab) -> None:
    """Forget the questions of a tab."""
    if tab.page.get_by_role("button", name="New chat").is_enabled():
        tab.page.get_by_role("button", name="New chat").click()


MARKDOWN: Final = """# Tea

It is **brewed** in the *kitchen* [1], as https://tea.example/brewing says.

- one
  1. two with `code`
- three

> quoted

```
boil(water)
```
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_in_the_area_ask(open_tab: OpenTab, chats: Chats, scheme: str) -> None:
    tab = open_tab(chats.url, color_scheme=scheme)
    found = {}
    for screen in ASK_SCREENS:
        show_ask(tab, chats, screen)
        found[screen] = tab.faults()
        clear_ask(tab)

    assert found == {screen: [] for screen in ASK_SCREENS}


@pytest.mark.parametrize(("viewport", "size"), [(NARROW, "100%"), ({"width": 640, "height": 800}, "200%")])
def test_the_area_ask_does_not_scroll_sideways(
    open_tab: OpenTab, chats: Chats, viewport: dict[str, int], size: str
) -> None:
    tab = open_tab(chats.url, viewport=viewport)
    tab.page.evaluate("size => { document.documentElement.style.fontSize = size; }", size)
    wide = []
    for screen in ASK_SCREENS:
        show_ask(tab, chats, screen)
        wide += [screen] if tab.overflows() else []
        tab.page.keyboard.press("Escape")
        clear_ask(tab)

    assert wide == []


AUDIT_SCREENS: Final = {
    "entries": ("#/audit", "retrieval"),
    "entry": ("#/audit/entries?entry=1", "Hash before"),
    "no entry": ("#/audit/entries?key=nobody", "No entry is here"),
    "conversations": ("#/audit/conversations", "c-accessible"),
    "conversation": ("#/audit/conversations/c-accessible", "Context of the task answer"),
    "no conversation": ("#/audit/conversations/nothing", "There is no such conversation"),
    "verification": ("#/audit/verification", "Export as JSONL"),
    "problems": ("#/audit/verification", "not intact"),
}


def show_audit(tab: Tab, screen: str) -> None:
    """Show a screen of the area Audit in an open tab."""
    path, text = AUDIT_SCREENS[screen]
    tab.show("#/nowhere")
    tab.see("There is no such area.")
    tab.show(path)
    if screen == "problems":
        tab.page.get_by_label("Earlier head").fill(f"1:{'0' * 64}")
        tab.page.get_by_role("button", name="Verify").click()
    tab.see(text)


@pytest.fixture
def audited(chats: Chats) -> Chats:
    """The gateway, with a conversation that has feedback."""
    body = {"model": "rag/cook", "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
    headers = {"X-Conversation-Id": "c-accessible", "X-Request-ID": "r-accessible"}
    chats.reply(stream_of("It is brewed in the kitchen [1]."))
    chats.bases.call("POST", "/v1/chat/completions", json=body, headers=headers)
    feedback = {"requestId": "r-accessible", "helpful": False, "comment": "It is the pantry."}
    chats.bases.call("POST", "/conversations/c-accessible/feedback", json=feedback)
    return chats


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault_in_the_area_audit(open_tab: OpenTab, audited: Chats, scheme: str) -> None:
    tab = open_tab(audited.url, color_scheme=scheme)
    found = {}
    for screen in AUDIT_SCREENS:
        show_audit(tab, screen)
        found[screen] = tab.faults()

    assert found == {screen: [] for screen in AUDIT_SCREENS}


@pytest.mark.parametrize(("viewport", "size"), [(NARROW, "100%"), ({"width": 640, "height": 800}, "200%")])
def test_the_area_audit_does_not_scroll_sideways(
    open_tab: OpenTab, audited: Chats, viewport: dict[str, int], size: str
) -> None:
    tab = open_tab(audited.url, viewport=viewport)
    tab.page.evaluate("size => { document.documentElement.style.fontSize = size; }", size)
    wide = []
    for screen in AUDIT_SCREENS:
        show_audit(tab, screen)
        wide += [screen] if tab.overflows() else []

    assert wide == []


def test_axe_finds_no_fault_in_the_sign_in(open_tab: OpenTab, keyed: KeyedService) -> None:
    tab = open_tab(keyed.served.url)
    tab.see("This service needs a key")

    assert tab.faults() == []


def test_axe_finds_no_fault_in_the_forms_and_dialogs(open_tab: OpenTab, store: Served) -> None:
    tab = opened(open_tab, store, "document")
    tab.page.get_by_role("button", name="Add filter").click()
    tab.see("Fields of the documents shown")
    tab.page.get_by_text("Filter as JSON").click()
    tab.page.get_by_role("button", name="Edit metadata").click()
    assert tab.faults() == []
    tab.page.get_by_role("button", name="Copy as code").click()
    assert tab.faults() == []


def test_axe_finds_no_fault_while_data_is_loaded(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, "#/health")
    tab.see("Healthy")
    tab.page.route("**/collections?*", lambda route: None)
    tab.show("#/collections")
    tab.page.get_by_role("status", name="Loading").wait_for()

    assert tab.faults() == []


@pytest.mark.parametrize(
    "screen", ["list", "documents", "document", "query", "map", "map and document", "settings", "health"]
)
def test_a_narrow_window_does_not_scroll_sideways(open_tab: OpenTab, store: Served, screen: str) -> None:
    tab = opened(open_tab, store, screen, viewport=NARROW)

    assert not tab.overflows()
    assert tab.faults() == []


@pytest.mark.parametrize("screen", ["list", "documents", "query", "map", "settings", "health"])
def test_text_of_twice_the_size_does_not_scroll_sideways(open_tab: OpenTab, store: Served, screen: str) -> None:
    tab = opened(open_tab, store, screen, viewport={"width": 640, "height": 800})
    tab.page.evaluate("document.documentElement.style.fontSize = '200%'")

    assert not tab.overflows()


def test_a_narrow_row_keeps_its_name(open_tab: OpenTab, store: Served) -> None:
    tab = opened(open_tab, store, "list", viewport=NARROW)

    assert tab.page.get_by_role("gridcell", name=LARGE).bounding_box()["width"] > 60


def test_forced_colours_show_the_active_row(open_tab: OpenTab, store: Served) -> None:
    tab = opened(open_tab, store, "documents", forced_colors="active")
    tab.page.get_by_role("grid").focus()
    tab.page.keyboard.press("ArrowDown")
    outline = "getComputedStyle(document.querySelector('.grid-row.active')).outlineStyle"

    assert tab.page.evaluate(outline) == "solid"


def test_the_title_names_the_area(open_tab: OpenTab, store: Served) -> None:
    tab = opened(open_tab, store, "health")

    assert tab.page.title() == "Health, ragstore"
