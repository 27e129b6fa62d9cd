"""The page without a mouse."""

from __future__ import annotations

from urllib.parse import unquote

from tests.page.bases import Bases
from tests.page.conftest import OpenTab
from tests.page.data import LARGE
from tests.page.tab import Tab
from tests.support.servers import Served


def focused(tab: Tab) -> str:
    """The role and the id of the focused element."""
    return str(tab.page.evaluate("`${document.activeElement.getAttribute('role')}#${document.activeElement.id}`"))


def active(tab: Tab) -> str:
    """The text of the active row, which the list names to screen readers."""
    return str(
        tab.page.evaluate(
            "document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).innerText"
        )
    )


def press(tab: Tab, *keys: str) -> None:
    """Press keys one after the other."""
    for key in keys:
        tab.page.keyboard.press(key)


def tab_to(tab: Tab, what: str) -> None:
    """Press Tab until the focus has a role and id."""
    for _ in range(40):
        press(tab, "Tab")
        if focused(tab) == what:
            return
    raise AssertionError(f"Tab does not reach {what}")


def tab_to_name(tab: Tab, name: str) -> None:
    """Press Tab until the focus has a label or a text."""
    label = "(document.activeElement.labels?.[0] ?? document.activeElement).innerText.trim()"
    for _ in range(60):
        press(tab, "Tab")
        if tab.page.evaluate(label) == name:
            return
    raise AssertionError(f"Tab does not reach {name}")


def test_a_list_is_one_tab_stop(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, f"#/collections/{LARGE}")
    tab.see("handbook:00003")
    tab_to(tab, "grid#documents")
    press(tab, "Tab")

    assert "grid" not in focused(tab)
    assert tab.page.evaluate("document.activeElement.closest('[role=grid]')") is None


def test_arrows_and_pages_move_the_active_row(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, f"#/collections/{LARGE}")
    tab.see("handbook:00003")
    tab_to(tab, "grid#documents")
    press(tab, "ArrowDown", "ArrowDown")
    assert "handbook:00002" in active(tab)
    press(tab, "ArrowUp")
    assert "handbook:00001" in active(tab)
    press(tab, "PageDown", "Home")
    assert "handbook:00000" in active(tab)


def test_enter_opens_a_document_and_escape_returns_to_the_list(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, f"#/collections/{LARGE}")
    tab.see("handbook:00003")
    tab_to(tab, "grid#documents")
    press(tab, "ArrowDown", "Enter")
    tab.page.get_by_role("complementary", name="Document").get_by_text("Passage 1.").first.wait_for()
    press(tab, "Escape")
    tab.page.get_by_role("complementary", name="Document").wait_for(state="detached")

    assert focused(tab) == "grid#documents"
    assert "handbook:00001" in active(tab)


def test_the_open_document_follows_the_active_row(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, f"#/collections/{LARGE}")
    tab.see("handbook:00003")
    tab_to(tab, "grid#documents")
    press(tab, "Enter", "ArrowDown", "ArrowDown", "ArrowDown")
    tab.page.get_by_role("complementary", name="Document").get_by_text("Passage 3.").first.wait_for()

    assert "id=handbook:00003" in unquote(tab.address())


def test_keys_that_follow_each_other_at_once_move_the_panel(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, f"#/collections/{LARGE}")
    tab.see("handbook:00003")
    tab.page.evaluate(
        """async () => {
          for (const key of ["Enter", "ArrowDown", "ArrowDown"]) {
            document.getElementById("documents").dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
            await new Promise(queueMicrotask);
          }
        }"""
    )

    tab.page.get_by_role("complementary", name="Document").get_by_text("Passage 2.").first.wait_for()


def test_a_document_is_found_by_a_filter_without_a_mouse(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url)
    tab.page.get_by_role("row").nth(2).wait_for()
    tab_to(tab, "grid#collections")
    # The order of collections is Chroma's.
    while LARGE not in active(tab):
        press(tab, "ArrowDown")
    press(tab, "Enter")
    tab.see("handbook:00003")
    tab.page.get_by_role("button", name="Add filter").focus()
    press(tab, "Enter", "Tab")
    while tab.page.evaluate("document.activeElement.tagName") != "INPUT" or "Text" in str(
        tab.page.evaluate("document.activeElement.labels[0].innerText")
    ):
        press(tab, "Tab")
    tab.page.keyboard.type("page")
    press(tab, "Tab", "Tab")
    tab.page.keyboard.type("7")
    press(tab, "Enter")
    tab.page.get_by_role("status").get_by_text("250 documents").wait_for()
    tab.see("handbook:00047")
    assert '{"page":7}' in unquote(tab.address())


def test_a_base_is_created_filled_and_read_without_a_mouse(open_tab: OpenTab, bases: Bases) -> None:
    tab = open_tab(bases.url, "#/bases")
    tab.page.get_by_role("grid").wait_for()
    tab_to_name(tab, "Create a knowledge base")
    press(tab, "Enter")
    tab.page.get_by_label("Name *").wait_for()
    tab_to_name(tab, "Name *")
    tab.page.keyboard.type("Made by keys")
    press(tab, "Enter")
    tab.see("The base has no documents")
    # The driver does not wait until the browser reports dialogs: the keys before Enter give it the time.
    with tab.page.expect_file_chooser() as chooser:
        tab_to_name(tab, "Choose files")
        press(tab, "Enter")
    content = ("Tea is brewed in the kitchen. " * 60).encode()
    chooser.value.set_files([{"name": "tea.txt", "mimeType": "text/plain", "buffer": content}])
    tab.page.get_by_role("button", name="Complete 1").wait_for()
    tab_to(tab, "grid#base-documents")
    press(tab, "Enter")
    tab.see("Colours mark the chunks")
    tab.page.get_by_role("grid").wait_for()
    tab_to(tab, "grid#chunks")
    press(tab, "ArrowDown", "ArrowDown")

    assert active(tab).startswith("2")
    assert tab.address().endswith("?chunk=2")
    assert focused(tab) == "grid#chunks"
