"""Services that are away, slow, overloaded or behind a prefix."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.page.bases import Bases
from tests.page.chats import Chats
from tests.page.conftest import OpenTab
from tests.page.data import LARGE, fill_store
from tests.support.gateways import start_gateway
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, free_port, running, start_chroma, start_service


@pytest.fixture(scope="module")
@starts_process
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data of a store with few documents."""
    path = tmp_path_factory.mktemp("page-faults")
    with running(start_service(path)) as served, httpx.Client(base_url=served.url, timeout=60) as http:
        fill_store(http, documents=100)
    return path


@pytest.mark.process
def test_a_service_that_goes_away_and_returns_needs_no_reload(open_tab: OpenTab, folder: Path) -> None:
    port = free_port()
    served = start_service(folder, port=port)
    with running(served):
        tab = open_tab(served.url, f"#/collections/{LARGE}")
        tab.see("handbook:00003")
    tab.page.get_by_role("grid").focus()
    tab.page.keyboard.press("End")
    tab.page.get_by_role("alert").get_by_text("No response").wait_for()
    # The last data stays.
    tab.page.keyboard.press("Home")
    tab.see("handbook:00003")
    tab.page.keyboard.press("End")

    with running(start_service(folder, port=port)):
        tab.see("handbook:00099")
        tab.page.get_by_role("alert").wait_for(state="detached")


@pytest.mark.process
def test_chroma_away_at_the_start_and_later_is_named_in_place(open_tab: OpenTab, tmp_path: Path) -> None:
    port = free_port()
    environ = {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{port}"}
    with running(start_service(tmp_path, environ, ready=False)) as served:
        tab = open_tab(served.url)
        tab.page.get_by_role("alert").get_by_text("Chroma").first.wait_for()
        # Health works without Chroma.
        tab.show("#/health")
        tab.see("Not available")
        tab.show("#/collections")
        with running(start_chroma(tmp_path, port)):
            tab.see("There is no collection yet")
            tab.show("#/health")
            tab.see("✓ Healthy")
        tab.see("Not available")


def refusing(status: int, seconds: str) -> Any:
    """A handler of the browser that responds to one request as an overloaded service does, and passes on the others."""
    handled: list[int] = []

    def handle(route: Any) -> None:
        if handled:
            route.continue_()
            return
        handled.append(status)
        body = '{"title": "Overloaded", "detail": "Too many requests at a time", "code": "overloaded"}'
        headers = {"Retry-After": seconds, "X-Request-ID": "test-request"}
        route.fulfill(status=status, headers=headers, content_type="application/problem+json", body=body)

    return handle


@pytest.mark.parametrize("status", [429, 503])
def test_an_overload_is_counted_down_and_then_passes(open_tab: OpenTab, store: Served, status: int) -> None:
    tab = open_tab(store.url, "#/health")
    tab.see("Healthy")
    tab.page.route("**/collections?*", refusing(status, "2"))
    tab.show("#/collections")
    alert = tab.page.get_by_role("alert")
    alert.get_by_text("Too many requests at a time").wait_for()

    assert "test-request" in alert.inner_text()
    alert.get_by_text("Again in 1 s").wait_for()
    tab.page.get_by_role("gridcell", name=LARGE).wait_for()


def test_a_response_that_is_cut_is_an_error_in_place(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, "#/health")
    tab.see("Healthy")
    tab.page.route("**/collections?*", lambda route: route.fulfill(status=200, body='{"collections": [{"na'))
    tab.show("#/collections")
    tab.page.get_by_role("alert").wait_for()
    tab.page.unroute("**/collections?*")
    tab.page.get_by_role("button", name="Retry").click()

    tab.page.get_by_role("gridcell", name=LARGE).wait_for()


def test_the_rest_of_a_screen_works_while_one_call_fails(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url)
    tab.page.route("**/query", lambda route: route.abort())
    tab.show(f"#/collections/{LARGE}/documents?id=handbook:00003")
    nearest = tab.page.get_by_role("region", name="Nearest documents")
    nearest.get_by_role("alert").wait_for()

    tab.see("Passage 3.")
    assert "section" in tab.page.get_by_role("region", name="Metadata").inner_text()


def test_one_reason_why_neither_models_nor_bases_are_listed_is_shown_once(open_tab: OpenTab, chats: Chats) -> None:
    tab = open_tab(chats.url, "#/health")
    tab.see("Healthy")
    calls = re.compile(r"/v1/models|/descriptors")
    tab.page.route(calls, refusing(503, "60"))
    tab.show("#/ask")
    tab.page.get_by_role("alert").get_by_text("Too many requests at a time").wait_for()
    tab.page.wait_for_timeout(500)
    assert tab.page.get_by_role("alert").count() == 1
    tab.page.unroute(calls)
    tab.page.get_by_role("button", name="Retry").click()
    tab.page.locator("select:enabled").wait_for()

    assert tab.page.get_by_role("alert").count() == 0
    assert tab.page.locator("optgroup").count() == 2


def test_a_base_recovers_from_a_failure_of_its_list_in_place(open_tab: OpenTab, bases: Bases) -> None:
    base = bases.filled("Recovers", {"tea.txt": "Tea is brewed."})
    tab = open_tab(bases.url, "#/health")
    tab.see("Embedding model")
    tab.page.route("**/documents?*", refusing(503, "1"))
    tab.show(f"#/bases/{base}")
    tab.page.get_by_role("alert").get_by_text("Too many requests at a time").wait_for()
    tab.page.get_by_role("row").filter(has_text="tea.txt").wait_for()
    tab.page.get_by_role("alert").wait_for(state="detached")


def test_a_document_says_in_place_that_its_text_cannot_be_read(open_tab: OpenTab, bases: Bases) -> None:
    base = bases.filled("Without text", {"tea.txt": "Tea is brewed."})
    tab = open_tab(bases.url, "#/health")
    tab.see("Embedding model")
    tab.page.route("**/texts/*", lambda route: route.abort())
    tab.show(f"#/bases/{base}/documents/tea.txt")
    tab.page.get_by_role("alert").get_by_text("No response").wait_for()
    tab.page.get_by_role("heading", name="tea.txt").wait_for()
    tab.page.unroute("**/texts/*")
    tab.page.get_by_role("button", name="Retry").click()
    tab.page.get_by_role("row").filter(has_text="Tea is brewed.").wait_for()


@pytest.mark.process
def test_files_are_sent_when_a_gateway_that_went_away_returns(open_tab: OpenTab, tmp_path: Path) -> None:
    port = free_port()
    with running(start_gateway(tmp_path, port=port)) as served:
        base = Bases(served.url).create("Interrupted")
        tab = open_tab(served.url, f"#/bases/{base}")
        tab.see("The base has no documents")
    file = {"name": "tea.txt", "mimeType": "text/plain", "buffer": b"Tea is brewed."}
    tab.page.locator("input[type=file]").first.set_input_files([file])
    tab.page.get_by_role("alert").get_by_text("Sending continues").wait_for()

    with running(start_gateway(tmp_path, port=port)):
        tab.page.get_by_role("button", name="Complete 1").wait_for(timeout=30_000)
