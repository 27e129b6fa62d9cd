"""Knowledge bases: their list, the form, changes and their price, conflicts, deletion, versions, copies, questions."""

from __future__ import annotations

import re

import pytest

from tests.page.bases import Bases
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.support.keyed_services import eventually

TEXT = "Tea is brewed in the kitchen. " * 30


@pytest.fixture(scope="module")
def filled(bases: Bases) -> str:
    """A base with two documents that are complete, and one that has failed."""
    base = bases.filled("Filled base", {"tea.txt": TEXT, "pots.txt": "Pots are warmed."})
    bases.send(base, "damaged.pdf", b"%PDF-1.7 damaged", "application/pdf")
    eventually(lambda: bases.states(base)["failed"], 30)
    return base


def settings(open_tab: OpenTab, bases: Bases, base: str) -> Tab:
    """A tab with the settings of a base."""
    tab = open_tab(bases.url, f"#/bases/{base}/settings")
    tab.see("Review changes")
    return tab


def review(tab: Tab, **fields: str) -> None:
    """Change fields of the form, and show the changes."""
    for label, value in fields.items():
        tab.page.get_by_label(label.replace("_", " ")).fill(value)
    tab.page.get_by_role("button", name="Review changes").click()


def test_the_list_has_the_documents_of_each_base_and_their_states(open_tab: OpenTab, bases: Bases, filled: str) -> None:
    tab = open_tab(bases.url, "#/bases")
    row = tab.page.get_by_role("row").filter(has_text="Filled base")
    row.get_by_text("1 failed").wait_for()

    assert row.get_by_role("gridcell").nth(2).inner_text() == "3"
    row.click()
    tab.see("damaged.pdf")
    assert tab.address().endswith(f"#/bases/{filled}")


def test_a_base_is_found_by_a_part_of_its_description(open_tab: OpenTab, bases: Bases) -> None:
    bases.create("found by text", description="About Lighthouses")
    tab = open_tab(bases.url, "#/bases")
    tab.page.get_by_label("Find by name or description").fill("lightHOUSE")
    tab.page.get_by_role("row").filter(has_text="found by text").wait_for()
    tab.page.get_by_role("grid", name="1 knowledge base").wait_for()
    tab.page.get_by_label("Find by name or description").fill("no such base")
    tab.see("No knowledge base matches")


def test_the_form_of_a_new_base_shows_the_defaults_and_errors_at_their_fields(open_tab: OpenTab, bases: Bases) -> None:
    tab = open_tab(bases.url, "#/bases/new")
    name, size = tab.page.get_by_label("Name *"), tab.page.get_by_label("Chunk size")
    size.wait_for()
    assert (size.input_value(), tab.page.get_by_label("Chunk strategy").input_value()) == ("512", "recursive")
    size.fill("32")
    name.fill("Created by form")
    create = tab.page.get_by_role("button", name="Create", exact=True)
    create.click()
    overlap = tab.page.get_by_label("Chunk overlap")
    tab.see("Must be less than chunkSize")

    assert overlap.get_attribute("aria-invalid") == "true"
    assert size.get_attribute("aria-invalid") == "false"
    eventually(lambda: overlap.evaluate("field => field === document.activeElement"))
    overlap.fill("8")
    create.click()
    tab.see("The base has no documents")
    base = tab.address().rpartition("/")[2]
    body = bases.call("GET", f"/ragstore/rags/{base}").json()
    assert (body["name"], body["chunkSize"], body["chunkOverlap"]) == ("Created by form", 32, 8)


def test_the_fields_of_a_provider_follow_its_choice(open_tab: OpenTab, bases: Bases) -> None:
    tab = open_tab(bases.url, "#/bases/new")
    tab.page.get_by_label("Embedding provider").select_option("openai")
    tab.page.get_by_label("API key *").wait_for()
    embedding = tab.page.get_by_role("group", name="Embedding")
    assert embedding.get_by_label("Base URL").input_value() == "https://api.openai.com/v1"
    tab.page.get_by_label("Name *").fill("Without key")
    tab.page.get_by_role("button", name="Create", exact=True).click()
    tab.page.locator("[aria-invalid=true]").wait_for()
    assert tab.page.get_by_label("API key *").get_attribute("aria-invalid") == "true"
    tab.page.get_by_label("Embedding provider").select_option("local")
    tab.page.get_by_label("API key *").wait_for(state="detached")


def test_a_change_of_chunks_is_shown_with_its_price_before_it_is_saved(
    open_tab: OpenTab, bases: Bases, filled: str
) -> None:
    tab = settings(open_tab, bases, filled)
    review(tab, Chunk_size="300")
    tab.page.get_by_role("status").get_by_text("2 documents are embedded again").wait_for()
    table = tab.page.get_by_role("group", name="Changes").inner_text()
    assert re.search(r"chunkSize\s+512\s+300", table)
    assert bases.call("GET", f"/ragstore/rags/{filled}").json()["chunkSize"] == 512
    tab.page.get_by_role("button", name="Back").click()
    assert tab.page.get_by_label("Chunk size").input_value() == "300"


def test_a_change_without_a_price_says_so_and_becomes_the_next_version(open_tab: OpenTab, bases: Bases) -> None:
    base = bases.create("Renamed later")
    tab = settings(open_tab, bases, base)
    assert tab.page.get_by_role("button", name="Review changes").is_disabled()
    review(tab, Maximum_results="9")
    tab.see("Nothing is embedded again.")
    tab.page.get_by_role("button", name="Save as version 2").click()
    tab.page.get_by_text("Version 2", exact=True).wait_for()

    assert bases.call("GET", f"/ragstore/rags/{base}").json()["maxResults"] == 9


def test_of_two_changes_at_a_time_both_versions_are_shown(open_tab: OpenTab, bases: Bases) -> None:
    base = bases.create("Changed twice")
    tab = settings(open_tab, bases, base)
    review(tab, Maximum_results="9")
    body = bases.call("GET", f"/ragstore/rags/{base}").json()
    bases.call("PUT", f"/ragstore/rags/{base}", params={"version": 1}, json={**body, "description": "theirs"})
    tab.page.get_by_role("button", name="Save as version 2").click()
    tab.see("Another client changed this base")
    table = tab.page.get_by_role("group", name="Changes").inner_text()
    assert re.search(r"maxResults\s+5\s+5\s+9", table)
    assert "theirs" in table
    tab.page.get_by_role("button", name="Save mine").click()
    tab.page.get_by_text("Version 3", exact=True).wait_for()

    assert bases.call("GET", f"/ragstore/rags/{base}").json()["maxResults"] == 9


def test_a_base_is_deleted_by_typing_its_name(open_tab: OpenTab, bases: Bases) -> None:
    base = bases.filled("Deleted base", {"a.txt": "tea"})
    tab = settings(open_tab, bases, base)
    tab.page.get_by_role("button", name="Delete knowledge base").click()
    dialog = tab.page.get_by_role("dialog")
    assert "1 document, their texts and chunks" in dialog.inner_text()
    action = dialog.get_by_role("button", name="Delete", exact=True)
    assert action.is_disabled()
    dialog.get_by_role("textbox").fill("Deleted base")
    action.click()
    tab.page.get_by_role("grid").wait_for()

    assert [each["name"] for each in bases.call("GET", "/ragstore/rags/descriptors").json()].count("Deleted base") == 0


def test_two_versions_are_compared(open_tab: OpenTab, bases: Bases) -> None:
    base = bases.create("With versions")
    body = bases.call("GET", f"/ragstore/rags/{base}").json()
    for version in (1, 2):
        changed = {**body, "chunkSize": 512 + version}
        bases.call("PUT", f"/ragstore/rags/{base}", params={"version": version}, json=changed)
    tab = open_tab(bases.url, f"#/bases/{base}/versions")
    compared = tab.page.get_by_role("region", name="Compare")
    compared.get_by_role("group", name="Changes").get_by_text("514").wait_for()
    tab.page.get_by_label("Older: Version 1").check()
    compared.get_by_role("cell", name="512", exact=True).wait_for()

    assert re.search(r"chunkSize\s+512\s+514", compared.inner_text())


def test_a_single_version_is_compared_with_nothing(open_tab: OpenTab, bases: Bases) -> None:
    tab = open_tab(bases.url, f"#/bases/{bases.create('With one version')}/versions")
    tab.page.get_by_role("button", name="Duplicate version 1").wait_for()

    assert tab.page.get_by_role("radio").count() == 0
    assert tab.page.get_by_role("region", name="Compare").count() == 0


def test_a_base_is_duplicated_with_its_documents(open_tab: OpenTab, bases: Bases, filled: str) -> None:
    tab = open_tab(bases.url, f"#/bases/{filled}/versions")
    tab.page.get_by_role("button", name="Duplicate version 1").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_role("checkbox").check()
    dialog.get_by_role("button", name="Duplicate", exact=True).click()
    tab.page.get_by_role("heading", name="Filled base-copy").wait_for()
    tab.page.get_by_role("button", name="Complete 2").wait_for()


def test_a_question_finds_passages_that_open_at_their_place(open_tab: OpenTab, bases: Bases, filled: str) -> None:
    tab = open_tab(bases.url, f"#/bases/{filled}/try")
    tab.page.get_by_label("Question").fill("Where is tea brewed?")
    tab.page.get_by_role("button", name="Search").click()
    passage = tab.page.get_by_role("region", name="Results").get_by_role("listitem").filter(has_text="tea.txt").first
    text = passage.locator(".passage").inner_text()
    passage.get_by_role("link").click()
    tab.page.get_by_role("grid").wait_for()
    marked = "[...CSS.highlights.get('chunk-chosen')].map(each => { const range = document.createRange();"
    marked += "range.setStart(each.startContainer, each.startOffset); range.setEnd(each.endContainer, each.endOffset);"
    marked += "return range.toString(); })"

    assert eventually(lambda: tab.page.evaluate(marked)) == [text]


def test_a_question_without_passages_says_so(open_tab: OpenTab, bases: Bases) -> None:
    tab = open_tab(bases.url, f"#/bases/{bases.create('Without passages')}/try")
    tab.page.get_by_label("Question").fill("tea?")
    tab.page.get_by_role("button", name="Search").click()
    tab.see("No passage was found")


def test_a_base_that_does_not_exist_is_named_in_place(open_tab: OpenTab, bases: Bases) -> None:
    tab = open_tab(bases.url, "#/bases/550e8400-e29b-41d4-a716-446655440000")
    tab.page.get_by_role("alert").get_by_text("There is no knowledge base").wait_for()
