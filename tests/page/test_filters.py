"""Filters of documents: conditions, JSON, texts, and the code of the call."""

from __future__ import annotations

import subprocess
import sys
from urllib.parse import quote

from tests.page.conftest import OpenTab
from tests.page.data import LARGE
from tests.support.servers import Served


def test_a_condition_is_chosen_from_fields_and_values_that_exist(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, f"#/collections/{LARGE}")
    tab.see("handbook:00003")
    tab.page.get_by_role("button", name="Add filter").click()
    tab.page.get_by_role("group", name="Fields of the documents shown").get_by_role("button", name="section").click()
    tab.page.get_by_role("group", name="Values of the field").get_by_role("button", name="roof").click()
    tab.page.get_by_role("button", name="Add", exact=True).click()

    tab.page.get_by_role("status").get_by_text("3,333 documents").wait_for()
    tab.page.get_by_role("button", name="Remove: section").click()
    tab.page.get_by_role("status").get_by_text("10,000 documents").wait_for()


def test_a_filter_as_json_becomes_conditions_and_back(open_tab: OpenTab, store: Served) -> None:
    where = '{"$and": [{"page": {"$gte": 38}}, {"draft": false}]}'
    tab = open_tab(store.url, f"#/collections/{LARGE}/documents?where={quote(where)}")
    tab.page.get_by_role("status").get_by_text("250 documents").wait_for()

    assert "page is at least 38" in tab.text()
    assert "draft is false" in tab.text()


def test_a_filter_that_is_no_list_of_conditions_is_edited_as_json(open_tab: OpenTab, store: Served) -> None:
    where = '{"$or": [{"page": 1}, {"page": 2}]}'
    tab = open_tab(store.url, f"#/collections/{LARGE}/documents?where={quote(where)}")
    tab.page.get_by_role("status").get_by_text("500 documents").wait_for()

    assert tab.page.get_by_role("button", name="Add filter").is_disabled()
    tab.page.get_by_text("Filter as JSON").click()
    tab.page.get_by_role("textbox", name="Filter as JSON").fill("{")
    tab.page.get_by_role("textbox", name="Filter as JSON").press("Tab")
    tab.page.get_by_role("button", name="Apply").last.click()
    tab.see("This is no JSON")


def test_an_error_of_a_filter_is_shown_in_place(open_tab: OpenTab, store: Served) -> None:
    where = '{"page": {"$near": 1}}'
    tab = open_tab(store.url, f"#/collections/{LARGE}/documents?where={quote(where)}")

    tab.page.get_by_role("alert").get_by_text("$near").wait_for()


def test_a_text_filters_documents(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, f"#/collections/{LARGE}")
    tab.page.get_by_label("Text contains").fill("Passage 4711.")
    tab.page.get_by_label("Text contains").press("Enter")

    tab.page.get_by_role("status").get_by_text("1 document").wait_for()
    tab.see("handbook:04711")


def test_the_code_of_a_filter_runs(open_tab: OpenTab, store: Served) -> None:
    where = '{"page": 7, "section": "roof"}'
    tab = open_tab(store.url, f"#/collections/{LARGE}/documents?where={quote(where)}")
    tab.see("handbook:00007")
    tab.page.get_by_role("button", name="Copy as code").click()
    curl, python = tab.page.locator("dialog pre").all_inner_texts()

    listed = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, check=True, timeout=30).stdout
    printed = subprocess.run(
        [sys.executable, "-c", python], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    assert '"handbook:00007"' in listed
    assert "handbook:00007" in printed.splitlines()


def test_nearest_documents_open_one_after_the_other(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, f"#/collections/{LARGE}/documents?id=handbook:00003")
    nearest = tab.page.get_by_role("region", name="Nearest documents").get_by_role("button")
    nearest.first.wait_for()
    assert nearest.count() == 8
    nearest.first.click()

    tab.page.wait_for_function("!location.hash.includes('handbook%3A00003')")
    assert "id=handbook" in tab.address()


def test_a_query_by_document_has_scores_and_the_time_of_the_service(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, f"#/collections/{LARGE}/query")
    tab.page.get_by_label("Id of a document").fill("handbook:00003")
    tab.page.get_by_role("button", name="Search").click()
    tab.see("10 results")

    assert tab.page.locator(".matches li").count() == 10
    assert "1.000" in tab.page.locator(".matches li").first.inner_text()
    assert "Store " in tab.text()


def test_a_question_is_embedded_by_the_gateways_model(open_tab: OpenTab, gateway: Served) -> None:
    tab = open_tab(gateway.url, "#/collections")
    tab.page.get_by_role("gridcell", name="memory", exact=True).click()
    tab.page.get_by_role("link", name="Query").click()
    tab.page.get_by_label("Question or text").fill("How often is the roof inspected?")
    tab.page.get_by_role("button", name="Search").click()

    tab.see("10 results")
