"""The page with keys: none, each role, one service only, patterns, a key that is withdrawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest
from click.testing import CliRunner

from ragstore_gateway.commands.cli import main
from tests.page.bases import Bases
from tests.page.chats import ask
from tests.page.conftest import OpenTab
from tests.page.data import LARGE
from tests.page.tab import Tab
from tests.support.gateways import start_gateway
from tests.support.keyed_services import KeyedService, create_key
from tests.support.process_fixtures import starts_process
from tests.support.servers import Served, running

FORBIDDEN: Final = 403


def sign_in(tab: Tab, key: str) -> None:
    """Sign in with a key."""
    tab.page.get_by_label("Key").fill(key)
    tab.page.get_by_role("button", name="Sign in").click()


def test_without_a_key_there_is_only_the_sign_in(open_tab: OpenTab, keyed: KeyedService) -> None:
    tab = open_tab(keyed.served.url, f"#/collections/{LARGE}")
    tab.see("This service needs a key")

    assert tab.page.get_by_role("navigation").count() == 0
    assert LARGE not in tab.text()


def test_a_wrong_key_is_named_at_the_form(open_tab: OpenTab, keyed: KeyedService) -> None:
    tab = open_tab(keyed.served.url)
    sign_in(tab, "rsk_wrong")

    tab.page.get_by_role("alert").get_by_text("The key is not valid").wait_for()


@pytest.mark.parametrize("role", ["reader", "writer", "admin"])
def test_no_control_of_a_role_leads_to_a_403(open_tab: OpenTab, keyed: KeyedService, role: str) -> None:
    tab = open_tab(keyed.served.url)
    sign_in(tab, keyed.keys[role])
    tab.page.get_by_role("gridcell", name=LARGE).wait_for()
    below = ("documents?id=handbook:00003", "map", "settings")
    for path in (*(f"#/collections/{LARGE}/{each}" for each in below), "#/health"):
        tab.show(path)
        tab.page.wait_for_timeout(700)
        enabled = tab.page.locator("main button:enabled")
        for number in range(enabled.count()):
            enabled.nth(number).evaluate("button => button.click()")
            tab.page.keyboard.press("Escape")
            tab.show("#/collections")
            tab.show(path)
            tab.page.wait_for_timeout(150)

    assert FORBIDDEN not in tab.statuses


def test_a_reader_sees_the_role_that_a_change_needs(open_tab: OpenTab, keyed: KeyedService) -> None:
    tab = open_tab(keyed.served.url)
    sign_in(tab, keyed.keys["reader"])
    tab.show(f"#/collections/{LARGE}/settings")
    tab.see("Needs the role admin")

    assert tab.page.get_by_role("button", name="Delete collection").is_disabled()
    assert tab.page.get_by_role("button", name="Edit metadata").is_disabled()


def test_a_key_with_patterns_sees_its_collections_only(open_tab: OpenTab, keyed: KeyedService) -> None:
    tab = open_tab(keyed.served.url)
    sign_in(tab, keyed.keys["guest"])
    tab.see("notes-empty")

    assert LARGE not in tab.text()
    tab.show(f"#/collections/{LARGE}")
    tab.page.get_by_role("alert").wait_for()


def test_the_key_is_in_no_address_no_cookie_and_no_local_storage(open_tab: OpenTab, keyed: KeyedService) -> None:
    key = keyed.keys["reader"]
    tab = open_tab(keyed.served.url)
    sign_in(tab, key)
    tab.show(f"#/collections/{LARGE}/documents?id=handbook:00003")
    tab.see("Passage 3.")

    assert not [each for each in (*tab.requests, tab.address()) if key in each]
    assert tab.page.evaluate("localStorage.length") == 0
    assert tab.page.evaluate("document.cookie") == ""
    assert key not in keyed.served.log.read_text()
    assert LARGE + "/documents?id" not in keyed.served.log.read_text()


def test_a_reload_keeps_the_key_and_a_sign_out_removes_it(open_tab: OpenTab, keyed: KeyedService) -> None:
    tab = open_tab(keyed.served.url)
    sign_in(tab, keyed.keys["reader"])
    tab.page.get_by_role("gridcell", name=LARGE).wait_for()
    tab.page.reload()
    tab.page.get_by_role("gridcell", name=LARGE).wait_for()
    tab.page.get_by_role("button", name="Sign out").click()
    tab.see("This service needs a key")

    assert tab.page.evaluate("sessionStorage.length") == 0
    tab.page.reload()
    tab.see("This service needs a key")


def test_a_key_that_is_withdrawn_leads_back_to_the_sign_in(open_tab: OpenTab, keyed: KeyedService) -> None:
    before = keyed.keys_file.read_text()
    key = create_key(keyed.keys_file, "leaving", "reader")
    tab = open_tab(keyed.served.url)
    for _ in range(20):
        sign_in(tab, key)
        tab.page.wait_for_timeout(300)
        if tab.page.get_by_role("grid").count():
            break
    keyed.keys_file.write_text(before)
    tab.show("#/health")
    tab.see("The key is no longer valid")

    assert tab.page.evaluate("sessionStorage.length") == 0
    assert LARGE not in tab.text()


GATEWAY_KEYS: Final = {
    "reader": ["--role", "reader"],
    "writer": ["--role", "writer"],
    "admin": ["--role", "admin"],
    "team": ["--role", "reader", "--bases", "team*"],
    "lead": ["--role", "admin", "--bases", "team*"],
    "root": ["--role", "admin", "--store-role", "admin"],
    "both": ["--role", "reader", "--store-role", "admin"],
    "chat": ["--role", "reader"],
}


@dataclass(frozen=True)
class KeyedGateway:
    """A gateway with keys.

    Attributes:
        keys: the plain keys by name.
    """

    served: Served
    keys: dict[str, str]


@pytest.fixture(scope="module")
@starts_process
def keyed_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedGateway]:
    """A gateway with a key for both services, and one for the gateway only."""
    folder = tmp_path_factory.mktemp("page-keyed-gateway")
    keys = {}
    for name, options in GATEWAY_KEYS.items():
        command = ["keys", "new", name, *options, "--file", str(folder / "keys")]
        keys[name] = CliRunner().invoke(main, command).output.strip()
    with running(start_gateway(folder, {"RAGSTORE_GATEWAY_KEYS_FILE": str(folder / "keys")})) as served:
        yield KeyedGateway(served, keys)


@pytest.fixture(scope="module")
def keyed_base(keyed_gateway: KeyedGateway) -> str:
    """A base with a document and a source."""
    bases = Bases(keyed_gateway.served.url, {"Authorization": f"Bearer {keyed_gateway.keys['root']}"})
    bases.create("team tea")
    source = {"name": "docs", "type": "upload"}
    return bases.filled("Private base", {"tea.txt": "Tea is brewed. " * 100}, sources=[source])


@pytest.fixture(scope="module")
def keyed_set(keyed_gateway: KeyedGateway, keyed_base: str) -> str:
    """The id of a question set of the base."""
    bases = Bases(keyed_gateway.served.url, {"Authorization": f"Bearer {keyed_gateway.keys['root']}"})
    question = {"text": "How is tea brewed?", "passages": [{"documentName": "tea.txt"}]}
    body = {"name": "Private set", "base": keyed_base, "questions": [question]}
    location = bases.call("POST", "/ragstore/questions", json=body).headers["Location"]
    return str(location).rpartition("/")[2].partition("?")[0]


@pytest.mark.parametrize("role", ["reader", "writer", "admin"])
def test_no_control_of_a_base_leads_to_a_403(
    open_tab: OpenTab, keyed_gateway: KeyedGateway, keyed_base: str, keyed_set: str, role: str
) -> None:
    tab = open_tab(keyed_gateway.served.url, f"#/bases/{keyed_base}")
    sign_in(tab, keyed_gateway.keys[role])
    tab.page.get_by_role("link", name="Knowledge bases").first.wait_for()
    below = ("", "/documents/tea.txt?chunk=1", "/try", "/settings", "/sources", "/versions")
    paths = ["#/ask", "#/compare", "#/bases", "#/bases/new", *(f"#/bases/{keyed_base}{each}" for each in below)]
    questions = ("#/questions", f"#/questions/{keyed_set}", f"#/questions/{keyed_set}/runs")
    audit = ("#/audit", "#/audit/entries", "#/audit/conversations", "#/audit/verification")
    for path in (*paths, *questions, *audit):
        tab.show(path)
        tab.page.wait_for_timeout(700)
        enabled = tab.page.locator("main button:enabled")
        for number in range(enabled.count()):
            button = enabled.nth(number)
            if button.count() and button.inner_text() != "Delete document":
                button.evaluate("button => button.click()")
            tab.page.keyboard.press("Escape")
            tab.show("#/health")
            tab.show(path)
            tab.page.wait_for_timeout(150)

    assert FORBIDDEN not in tab.statuses


def test_a_reader_of_a_base_sees_the_chunks_and_the_roles_that_it_lacks(
    open_tab: OpenTab, keyed_gateway: KeyedGateway, keyed_base: str
) -> None:
    tab = open_tab(keyed_gateway.served.url)
    sign_in(tab, keyed_gateway.keys["reader"])
    tab.show(f"#/bases/{keyed_base}/documents/tea.txt")
    tab.see("The text needs the role writer.")
    tab.page.get_by_role("row").nth(3).wait_for()
    tab.show(f"#/bases/{keyed_base}")
    tab.page.get_by_role("button", name="Choose files").wait_for()
    assert tab.page.get_by_role("button", name="Choose files").is_disabled()
    tab.show(f"#/bases/{keyed_base}/settings")
    tab.see("Needs the role admin")
    assert tab.page.get_by_label("Chunk size").is_disabled()


@pytest.mark.parametrize("name", ["reader", "lead"])
def test_a_key_without_the_ledger_has_its_conversations_only(
    open_tab: OpenTab, keyed_gateway: KeyedGateway, keyed_base: str, name: str
) -> None:
    tab = open_tab(keyed_gateway.served.url, "#/audit")
    sign_in(tab, keyed_gateway.keys[name])
    tab.page.get_by_role("link", name="Audit").click()
    tab.see("There is no conversation")

    assert tab.page.get_by_role("navigation", name="Audit").count() == 0
    for path in ("#/audit/entries", "#/audit/verification"):
        tab.show(path)
        tab.see("The ledger needs the role admin for all knowledge bases.")
        assert tab.page.get_by_role("button", name="Verify").count() == 0
    assert FORBIDDEN not in tab.statuses


def test_a_reader_of_a_question_set_sees_the_roles_that_it_lacks(
    open_tab: OpenTab, keyed_gateway: KeyedGateway, keyed_set: str
) -> None:
    tab = open_tab(keyed_gateway.served.url)
    sign_in(tab, keyed_gateway.keys["reader"])
    tab.show(f"#/questions/{keyed_set}")
    tab.see("Needs the role admin")
    assert tab.page.get_by_label("Name *").is_disabled()
    tab.page.get_by_text("How is tea brewed?").click()
    tab.page.get_by_role("link", name="tea.txt").wait_for()
    assert tab.page.get_by_role("button", name="Find passages").is_disabled()
    assert tab.page.get_by_role("button", name="Export").is_enabled()
    tab.show(f"#/questions/{keyed_set}/runs")
    tab.see("Needs the role writer")
    assert tab.page.get_by_role("button", name="Run", exact=True).is_disabled()


def test_a_reader_sees_the_passages_of_a_reply_with_the_opened_one_marked(
    open_tab: OpenTab, keyed_gateway: KeyedGateway, keyed_base: str
) -> None:
    tab = open_tab(keyed_gateway.served.url)
    sign_in(tab, keyed_gateway.keys["reader"])
    tab.show(f"#/ask?base={keyed_base}")
    ask(tab, "How is tea brewed?")
    tab.page.get_by_role("button", name="Open passage 2").click()
    panel = tab.page.get_by_role("complementary", name="Passage")
    panel.get_by_text("The whole text needs the role writer.").wait_for()
    passage = tab.page.get_by_role("article").locator(".passage").nth(1).inner_text()

    assert tab.page.get_by_role("button", name="Add to a question set").is_disabled()
    assert panel.locator("mark").inner_text() == passage
    assert panel.locator(".beside-passage").count() > 1
    assert FORBIDDEN not in tab.statuses
    assert not [each for each in tab.requests if "/texts/" in each]


def test_the_questions_of_a_caller_end_with_the_sign_out(
    open_tab: OpenTab, keyed_gateway: KeyedGateway, keyed_base: str
) -> None:
    tab = open_tab(keyed_gateway.served.url)
    sign_in(tab, keyed_gateway.keys["writer"])
    tab.show(f"#/ask?base={keyed_base}")
    ask(tab, "How is tea brewed?")
    tab.page.get_by_role("button", name="Open passage 1").wait_for()
    tab.page.get_by_role("button", name="Sign out").click()
    sign_in(tab, keyed_gateway.keys["team"])
    tab.show("#/ask")
    tab.see("Ask a question")

    assert tab.page.get_by_role("article").count() == 0
    assert [each for each in tab.page.locator("option").all_inner_texts() if "Private" in each] == []


def test_a_key_with_patterns_sees_its_bases_only(
    open_tab: OpenTab, keyed_gateway: KeyedGateway, keyed_base: str, keyed_set: str
) -> None:
    tab = open_tab(keyed_gateway.served.url, "#/bases")
    sign_in(tab, keyed_gateway.keys["team"])
    tab.show("#/questions")
    tab.see("There is no question set yet")
    tab.show(f"#/questions/{keyed_set}")
    tab.page.get_by_role("alert").wait_for()
    assert "Private set" not in tab.text()
    tab.show("#/bases")
    tab.see("team tea")
    assert "Private base" not in tab.text()
    tab.show(f"#/bases/{keyed_base}")
    tab.page.get_by_role("alert").wait_for()
    assert "Private base" not in tab.text()


def test_a_key_for_the_gateway_only_sees_its_area(open_tab: OpenTab, keyed_gateway: KeyedGateway) -> None:
    tab = open_tab(keyed_gateway.served.url)
    sign_in(tab, keyed_gateway.keys["chat"])
    tab.page.get_by_role("link", name="Health").click()
    tab.see("Embedding model")

    assert tab.page.get_by_role("link", name="Collections").count() == 0
    tab.show("#/collections")
    tab.see("This key has no rights for the area Collections.")
    assert FORBIDDEN not in tab.statuses


def test_a_key_for_both_services_sees_both_areas(open_tab: OpenTab, keyed_gateway: KeyedGateway) -> None:
    tab = open_tab(keyed_gateway.served.url)
    sign_in(tab, keyed_gateway.keys["both"])
    tab.page.get_by_role("link", name="Collections").wait_for()
    tab.page.get_by_role("link", name="Health").click()
    tab.see("Embedding model")

    assert FORBIDDEN not in tab.statuses
