"""The area Audit: entries of the ledger, conversations, verification and export; and feedback on replies in Ask."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from ragstore_gateway.commands.cli import main
from tests.page.bases import Bases
from tests.page.chats import QUESTION, Chats, ask, opened
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.page.test_hostile import STRINGS
from tests.support.fake_upstream import stream_of
from tests.support.keyed_services import eventually

GROUNDED: Final = stream_of("It is brewed", " in the kitchen [1].")


@pytest.fixture(autouse=True)
def grounded(chats: Chats) -> None:
    """Each test begins with the same reply."""
    chats.reply(GROUNDED)
    chats.upstream.off("models")


def chat(chats: Chats, conversation: str = "", model: str = "rag/cook", request_id: str = "") -> None:
    """Ask an assistant without the page."""
    headers = {"X-Conversation-Id": conversation} if conversation else {}
    headers |= {"X-Request-ID": request_id} if request_id else {}
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": QUESTION}]}
    chats.bases.call("POST", "/v1/chat/completions", json=body, headers=headers)


def entries(bases: Bases, **query: str) -> list[dict[str, Any]]:
    """Entries of the ledger, the newest first."""
    found: list[dict[str, Any]] = bases.call("GET", "/audit", params={"order": "newest", **query}).json()["entries"]
    return found


def rows(tab: Tab) -> Any:
    """The rows of the list, with its head."""
    return tab.page.get_by_role("group", name="Entries of the ledger").get_by_role("row")


def seen_entry(tab: Tab, number: int) -> Any:
    """The panel of an entry, as soon as it is shown."""
    panel = tab.page.get_by_role("complementary", name=f"Entry {number:,}")
    panel.locator("dl").wait_for()
    return panel


def test_the_entry_of_a_reply_has_the_passages_that_the_model_got(open_tab: OpenTab, chats: Chats) -> None:
    tab = opened(open_tab, chats)
    ask(tab)
    tab.page.get_by_role("article").locator("summary").wait_for()
    (entry, *_) = entries(chats.bases, kind="retrieval")
    trace = entry["data"]["rag:trace:answer"][0]
    tab.show("#/audit")
    tab.page.get_by_role("link", name=f"{entry['sequence']:,}", exact=True).click()
    panel = seen_entry(tab, entry["sequence"])

    assert f"entry={entry['sequence']}" in tab.address()
    fates = panel.get_by_role("group", name="Passages").locator("tbody tr").all_inner_texts()
    assert len(fates) == len(trace["passages"])
    used = [each for each in trace["passages"] if each.get("number")]
    assert sum(each.startswith("[") for each in fates) == len(used) > 0
    eventually(lambda: panel.get_by_role("link", name="shelf/tea").count() > 0)
    fates = panel.get_by_role("group", name="Passages").locator("tbody tr").all_inner_texts()
    names = document_names(chats.bases, chats.base)
    for text, passage in zip(fates, trace["passages"], strict=True):
        assert passage["id"] in text
        assert names[passage["documentId"]] in text
        assert f"{passage['score']:.3f}" in text
    assert f"{len(used)} of {len(trace['passages'])}" in rows(tab).nth(1).inner_text()
    text = panel.inner_text()
    for value in (entry["hash"], entry["previousHash"], entry["requestId"], "cook", "Kitchen", "version 1"):
        assert value in text
    panel.get_by_role("button", name="Close").focus()
    tab.page.keyboard.press("Escape")
    panel.wait_for(state="detached")
    assert tab.page.evaluate("document.activeElement.innerText") == f"{entry['sequence']:,}"


def document_names(bases: Bases, base: str) -> dict[str, str]:
    """The names of the documents of a base, by their ids."""
    listed = bases.call("GET", f"/ragstore/rags/{base}/documents").json()["documents"]
    return {each["id"]: each["name"] for each in listed}


def test_documents_are_named_as_long_as_they_exist_for_the_key(open_tab: OpenTab, chats: Chats) -> None:
    documents = {"Larder/tea & <b>.txt": f"{QUESTION} Here.", "other.txt": f"{QUESTION} There."}
    base = chats.bases.filled("Larder", documents)
    chats.assistant("larder", "Larder")
    chat(chats, "c-larder", model="rag/larder")
    chat(chats, "c-larder", model="rag/larder")
    ids = {name: id for id, name in document_names(chats.bases, base).items()}
    (entry, *_) = entries(chats.bases, kind="retrieval")
    tab = open_tab(chats.url, f"#/audit/entries?entry={entry['sequence']}")
    link = seen_entry(tab, entry["sequence"]).get_by_role("link", name="Larder/tea & <b>.txt")
    link.click()
    tab.page.get_by_role("heading", name="Larder/tea & <b>.txt").wait_for()
    assert f"{base}/documents/" in tab.address()

    chats.bases.call("DELETE", f"/ragstore/rags/{base}/documents/other.txt")
    requested: list[str] = []
    tab.page.on("request", lambda request: requested.append(request.url))
    tab.show("#/audit/conversations/c-larder")
    named = tab.page.get_by_role("link", name="Larder/tea & <b>.txt")
    eventually(lambda: named.count() == 2)
    assert tab.page.get_by_text(f"Document {ids['other.txt']}").count() == 2
    assert tab.page.get_by_role("link", name="other.txt").count() == 0
    assert len([url for url in requested if "documentId" in url]) == 1
    assert tab.faults() == []

    chats.bases.call("DELETE", f"/ragstore/rags/{base}")
    tab.show("#/audit/conversations")
    tab.show("#/audit/conversations/c-larder")
    eventually(lambda: tab.page.get_by_text(f"Document {ids['Larder/tea & <b>.txt']}").count() == 2)
    assert named.count() == 0


def test_entries_are_filtered_and_the_filter_is_in_the_address(open_tab: OpenTab, chats: Chats) -> None:
    chat(chats, "c-filter")
    chat(chats)
    tab = open_tab(chats.url, "#/audit")
    rows(tab).nth(2).wait_for()
    tab.page.get_by_text("Filters").click()
    tab.page.get_by_label("Conversation", exact=True).fill("c-filter")
    tab.page.get_by_label("Assistant").fill("cook")
    tab.page.get_by_label("Since").fill("2020-01-01T00:00")
    tab.page.get_by_label("Kind").select_option("retrieval")
    tab.page.get_by_role("button", name="Apply").click()
    eventually(lambda: rows(tab).count() == 2)

    assert "conversation=c-filter" in tab.address()
    tab.page.reload()
    rows(tab).nth(1).wait_for()
    assert rows(tab).count() == 2
    assert tab.page.get_by_label("Conversation", exact=True).input_value() == "c-filter"
    tab.page.get_by_label("Before").fill("2020-01-02T00:00")
    tab.page.get_by_role("button", name="Apply").click()
    tab.see("No entry is here")
    tab.page.get_by_role("button", name="Clear").click()
    rows(tab).nth(2).wait_for()
    tab.page.get_by_text("Filters").click()
    tab.page.get_by_label("Key").fill("nobody")
    tab.page.get_by_role("button", name="Apply").click()
    tab.see("No entry is here")


def test_the_ledger_is_read_in_pages_from_its_end(open_tab: OpenTab, chats: Chats) -> None:
    for number in range(51):
        chat(chats, f"c-page-{number}")
    last = entries(chats.bases)[0]["sequence"]
    tab = open_tab(chats.url, "#/audit/entries")
    tab.page.get_by_role("link", name=f"{last:,}", exact=True).wait_for()
    assert rows(tab).count() == 51
    assert tab.page.get_by_role("button", name="Newest").is_disabled()
    tab.page.get_by_role("button", name="Older").click()
    tab.page.get_by_role("link", name=f"{last - 50:,}", exact=True).wait_for()
    assert tab.page.get_by_role("link", name=f"{last:,}", exact=True).count() == 0
    tab.page.get_by_role("button", name="Newest").click()
    tab.page.get_by_role("link", name=f"{last:,}", exact=True).wait_for()
    tab.show("#/audit/conversations")
    tab.page.get_by_role("link", name="c-page-50", exact=True).wait_for()
    tab.page.get_by_role("button", name="Older").click()
    tab.page.get_by_role("link", name="c-page-0", exact=True).wait_for()


def test_a_conversation_has_its_steps_and_is_deleted(open_tab: OpenTab, chats: Chats) -> None:
    chat(chats, "c-steps")
    chat(chats, "c-steps")
    tab = open_tab(chats.url, "#/audit/conversations")
    tab.page.get_by_role("link", name="c-steps", exact=True).click()
    tab.page.get_by_role("article").nth(1).wait_for()
    context = tab.page.get_by_role("group", name="Context of the task answer").first
    assert "brewed in the kitchen" in context.inner_text()
    tab.page.get_by_role("link", name="Entries of the ledger").click()
    eventually(lambda: rows(tab).count() == 3)
    tab.show("#/audit/conversations/c-steps")
    tab.page.get_by_role("button", name="Delete conversation").click()
    tab.see("The entries of the ledger stay.")
    tab.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    tab.page.get_by_role("button", name="Newest").wait_for()
    assert tab.page.get_by_role("link", name="c-steps", exact=True).count() == 0
    tab.show("#/audit/entries?conversation=c-steps")
    eventually(lambda: rows(tab).count() == 4)
    rows(tab).nth(1).get_by_role("link").first.click()
    tab.see("2 steps deleted")
    tab.show("#/audit/conversations/c-steps")
    tab.page.get_by_role("alert").get_by_text("There is no such conversation").wait_for()


def test_the_ledger_is_verified_with_a_head_of_elsewhere_and_exported(
    open_tab: OpenTab, chats: Chats, tmp_path: Path
) -> None:
    chat(chats)
    tab = open_tab(chats.url, "#/audit/verification")
    tab.page.get_by_role("code").filter(has_text=re.compile("^ragstore-gateway audit verify")).wait_for()
    tab.page.get_by_role("button", name="Verify").click()
    result = tab.page.get_by_role("region", name="Result")
    result.wait_for()
    head = str(result.locator(".mono").inner_text())
    assert "intact" in result.get_by_role("status").inner_text()
    count = len(entries(chats.bases, limit="1000"))
    assert head.startswith(f"{count}:")
    field = tab.page.get_by_label("Earlier head")
    field.fill(f"{count}:{'0' * 64}")
    tab.page.get_by_role("button", name="Verify").click()
    result.get_by_text("not intact").wait_for()
    assert "rewritten" in result.get_by_role("group", name="Problems").inner_text()
    field.fill(head)
    chat(chats)
    tab.page.get_by_role("button", name="Verify").click()
    result.get_by_text(f"{count + 1} entries, intact").wait_for()
    with tab.page.expect_download() as download:
        tab.page.get_by_role("button", name="Export as JSONL").click()
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    verified = CliRunner().invoke(main, ["audit", "verify", "--file", str(file), "--head", head, "--json"])
    assert json.loads(verified.output)["intact"] is True
    assert file.name == "audit.jsonl"


def feedback(tab: Tab) -> Any:
    """The buttons of the last reply."""
    return tab.page.get_by_role("article").last.get_by_role("group", name="Feedback")


def test_a_reply_gets_feedback_and_a_comment(open_tab: OpenTab, chats: Chats) -> None:
    tab = opened(open_tab, chats)
    ask(tab)
    feedback(tab).get_by_role("button", name="Helpful", exact=True).click()
    tab.see("Stored with the conversation")
    (entry, *_) = entries(chats.bases)
    assert (entry["kind"], entry["data"]["helpful"]) == ("feedback", True)
    feedback(tab).get_by_role("button", name="Not helpful").click()
    feedback(tab).locator("[aria-pressed=true]", has_text="Not helpful").wait_for()
    tab.page.get_by_label("Comment").fill("It is the pantry.")
    tab.page.get_by_role("button", name="Send").click()
    path = f"/conversations/{entry['conversation']}"
    eventually(lambda: len(entries(chats.bases, conversation=entry["conversation"], kind="feedback")) == 3)
    (step,) = chats.bases.call("GET", path).json()["steps"]
    assert step["data"]["rag:feedback"]["helpful"] is False
    assert step["data"]["rag:feedback:comment"] == "It is the pantry."
    tab.show(f"#/audit/conversations/{entry['conversation']}")
    tab.see("not helpful")
    tab.see("It is the pantry.")
    tab.show("#/audit?kind=feedback")
    tab.show(f"#/audit/entries?conversation={entry['conversation']}")
    eventually(lambda: rows(tab).count() == 5)
    assert "not helpful" in rows(tab).nth(1).inner_text()


def test_feedback_that_cannot_be_stored_has_its_reason(open_tab: OpenTab, chats: Chats) -> None:
    tab = opened(open_tab, chats)
    ask(tab)
    feedback(tab).wait_for()
    conversation = entries(chats.bases, kind="retrieval")[0]["conversation"]
    chats.bases.call("DELETE", f"/conversations/{conversation}")
    feedback(tab).get_by_role("button", name="Helpful", exact=True).click()
    tab.page.get_by_role("alert").get_by_text("The conversation has no step").wait_for()
    assert feedback(tab).locator("[aria-pressed=true]").count() == 0


def test_a_new_chat_is_another_conversation_and_a_follow_up_is_the_same(open_tab: OpenTab, chats: Chats) -> None:
    tab = opened(open_tab, chats)
    names: list[str] = []
    for number in (1, 2, 1):
        if len(names) == 2:
            tab.page.get_by_role("button", name="New chat").click()
        ask(tab)
        turns = tab.page.get_by_role("article")
        eventually(lambda number=number, turns=turns: turns.count() == number and feedback(tab).is_visible())  # type: ignore[misc]  # mypy cannot infer the lambda
        names.append(entries(chats.bases, kind="retrieval")[0]["conversation"])
    assert names[0] == names[1] != names[2]


def test_a_reply_without_a_search_has_no_feedback(open_tab: OpenTab, chats: Chats) -> None:
    tab = opened(open_tab, chats)
    ask(tab, "ok")
    tab.see("too short to be searched for")
    assert tab.page.get_by_role("group", name="Feedback").count() == 0


def test_hostile_comments_and_ids_are_shown_as_text(open_tab: OpenTab, chats: Chats) -> None:
    for number, text in enumerate(STRINGS):
        chat(chats, "c-hostile", request_id=f"r{number}")
        body = {"requestId": f"r{number}", "helpful": True, "comment": text.replace("\0", "")}
        chats.bases.call("POST", "/conversations/c-hostile/feedback", json=body)
    tab = open_tab(chats.url, "#/audit/conversations/c-hostile")
    tab.page.get_by_role("article").nth(len(STRINGS) - 1).wait_for()
    assert tab.page.evaluate("window.hacked") is None
    shown = tab.page.get_by_role("group", name="Comment").all_text_contents()
    assert "<script>window.hacked = 1</script>" in shown[0]
    assert len(shown) == sum(bool(text.replace("\0", "")) for text in STRINGS)
