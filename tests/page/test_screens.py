"""The screenshots of docs/page.md: `make page-test PAGE="-k screens" SCREENS=write` writes them."""

from __future__ import annotations

import json
import os
from typing import Final

import httpx
import pytest

from tests.page.bases import Bases
from tests.page.chats import Chats, ask
from tests.page.comparisons import compare, side
from tests.page.conftest import OpenTab
from tests.page.maps import SENTENCES, arranged
from tests.page.tab import Tab
from tests.page.test_document_text import MARKED
from tests.support.fake_upstream import stream_of
from tests.support.keyed_services import eventually
from tests.support.pages import ROOT
from tests.support.servers import Served

FOLDER: Final = ROOT / "docs/page"
WRITES: Final = os.environ.get("SCREENS") == "write"

SCREENS: Final = {
    "collections": ("#/collections", "House handbook"),
    "documents": ("#/collections", "pitched roofs"),
    "bases": ("#/bases", "House handbook"),
    "base": ("#/bases/BASE", "handbook.md"),
    "document": ("#/bases/BASE/documents/handbook.md?chunk=8", "Colours mark the chunks"),
    "split": ("#/bases/BASE/documents/handbook.md", "Colours mark the chunks"),
    "settings": ("#/bases/BASE/settings", "Review changes"),
    "health": ("#/health", "Slowest operations of Chroma"),
}


def show(tab: Tab, name: str) -> None:
    """Bring a screen into the state of its picture."""
    if name == "bases":
        tab.page.get_by_role("row").filter(has_text="House handbook").get_by_text("Complete").wait_for()
    if name in ("document", "split"):
        tab.page.get_by_role("grid").wait_for()
    if name == "split":
        tab.page.get_by_role("button", name="Split differently").click()
        tab.page.get_by_label("Chunk size").fill("1200")
        tab.page.get_by_role("button", name="Split", exact=True).click()
        tab.page.get_by_role("region", name="Tried").get_by_role("grid").wait_for()
    if name == "settings":
        tab.page.get_by_label("Chunk size").fill("800")
        tab.page.get_by_label("Chunk strategy").select_option("markdown")
        tab.page.get_by_role("button", name="Review changes").click()
        tab.see("embedded again")


def taken(tab: Tab, name: str) -> None:
    """Take a picture, which the documentation must have."""
    picture = tab.page.screenshot()
    if WRITES:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.png").write_bytes(picture)
    assert (FOLDER / f"{name}.png").exists()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", SCREENS)
def test_each_screenshot_of_the_page_can_be_taken(
    open_tab: OpenTab, gateway: Served, bases: Bases, name: str, scheme: str
) -> None:
    path, text = SCREENS[name]
    (base,) = bases.call("GET", "/ragstore/rags/descriptors", params={"filter": "House handbook"}).json()
    path = path.replace("BASE", base["resource"].rpartition("/")[2].partition("?")[0])
    tab = open_tab(gateway.url, path, color_scheme=scheme, viewport={"width": 1180, "height": 720})
    if name == "documents":
        tab.page.get_by_role("gridcell", name="memory", exact=True).click()
        tab.page.get_by_role("row").nth(4).click()
        tab.page.get_by_role("region", name="Nearest documents").get_by_role("button").first.wait_for()
    else:
        tab.see(text)
    show(tab, name)
    taken(tab, f"{name}-{scheme}")


def test_the_screenshots_of_a_map_can_be_taken(open_tab: OpenTab, sentences: Served) -> None:
    address = f"#/collections/{SENTENCES}/map?color=part"
    tab = arranged(open_tab(sentences.url, address, viewport={"width": 1180, "height": 720}))
    tab.page.get_by_label("Question").fill("How often is the boiler serviced?")
    tab.page.get_by_role("button", name="Show", exact=True).click()
    tab.see("15 documents, nearest first")
    tab.page.locator("#map-documents-0").get_by_text("boiler").wait_for()
    for scheme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=scheme)
        taken(tab, f"map-{scheme}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_screenshot_of_the_api_reference_can_be_taken(open_tab: OpenTab, gateway: Served, scheme: str) -> None:
    body = {"model": "builtin/minilm", "input": "pitched roofs"}
    # The first request loads the model.
    httpx.post(f"{gateway.url}/v1/embeddings", json=body, timeout=60).raise_for_status()
    viewport = {"width": 1180, "height": 720}
    tab = open_tab(gateway.url, "#/createEmbeddings/try", page="docs", color_scheme=scheme, viewport=viewport)
    article = tab.page.get_by_role("article")
    article.get_by_label("Body (application/json)").fill(json.dumps(body))
    article.get_by_role("button", name="Send POST").click()
    article.locator("section[aria-busy=false]").get_by_role("heading", name="200").wait_for()
    taken(tab, f"reference-{scheme}")


EXPECTED_CHARACTERS: Final = 300

QUESTION: Final = "What is done if the heating of a whole building fails in winter?"

REPLY: Final = """The **on-call engineer** is called at once, on any day and hour, and is on site in four hours [1].

If the heating cannot be restored within 24 hours [1]:

- the building manager hands out electric heaters, two to a flat;
- the electricity is refunded at 6 euros per heater and day;
- a notice in the stairwell names the cause and the end of the repair."""


@pytest.fixture(scope="module")
def handbook(chats: Chats) -> Chats:
    """The gateway with a model server, and an assistant that searches the handbook."""
    content = (ROOT / "examples/handbook/handbook.md").read_bytes()
    base = chats.bases.create("House handbook", maxResults=3, chunkStrategy="markdown")
    chats.bases.send(base, "handbook.md", content, "text/markdown")
    chats.bases.complete(base)
    chats.assistant("caretaker", "House handbook")
    return chats


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_screenshot_of_a_reply_can_be_taken(open_tab: OpenTab, handbook: Chats, scheme: str) -> None:
    handbook.reply(stream_of(REPLY))
    viewport = {"width": 1180, "height": 720}
    tab = open_tab(handbook.url, "#/ask?model=rag/caretaker", color_scheme=scheme, viewport=viewport)
    ask(tab, QUESTION)
    tab.page.get_by_role("button", name="Passage 1: ").first.click()
    tab.page.get_by_role("link", name="Open in Knowledge bases").wait_for()
    tab.page.locator(".panel .text").wait_for()
    tab.page.locator(".turns").evaluate("turns => { turns.scrollTop = 0; }")
    # The passage is scrolled into view a frame later.
    tab.page.wait_for_timeout(300)
    (marked,) = tab.page.evaluate(MARKED, "chunk-chosen")
    assert marked.startswith("## Heating failure in winter")
    assert marked in (ROOT / "examples/handbook/handbook.md").read_text()
    assert f'="docs/page/ask-{scheme}.png"' in (ROOT / "README.md").read_text()
    taken(tab, f"ask-{scheme}")


def test_the_screenshots_of_the_ledger_can_be_taken(open_tab: OpenTab, handbook: Chats) -> None:
    handbook.reply(stream_of(REPLY))
    questions = (ROOT / "examples/handbook/questions.tsv").read_text().splitlines()[:8]
    for number, line in enumerate(questions):
        body = {"model": "rag/caretaker", "stream": True}
        body["messages"] = [{"role": "user", "content": line.partition("\t")[0]}]
        headers = {"X-Conversation-Id": f"tenant-{number // 2 + 1}", "X-Request-ID": f"request-{number + 1}"}
        handbook.bases.call("POST", "/v1/chat/completions", json=body, headers=headers)
    feedback = {"requestId": "request-8", "helpful": False}
    handbook.bases.call("POST", "/conversations/tenant-4/feedback", json=feedback)
    (_, entry, *_) = handbook.bases.call("GET", "/audit", params={"order": "newest"}).json()["entries"]
    address = f"#/audit/entries?entry={entry['sequence']}"
    tab = open_tab(handbook.url, address, viewport={"width": 1180, "height": 720})
    tab.page.get_by_role("complementary").get_by_role("group", name="Passages").wait_for()
    tab.see("not helpful")
    for scheme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=scheme)
        taken(tab, f"audit-{scheme}")


def test_the_screenshots_of_question_sets_can_be_taken(open_tab: OpenTab, handbook: Chats) -> None:
    (found,) = handbook.bases.call("GET", "/ragstore/rags/descriptors", params={"filter": "House handbook"}).json()
    base = found["resource"].rpartition("/")[2].partition("?")[0]
    content = (ROOT / "examples/handbook/handbook.md").read_text()
    asked = []
    for line in (ROOT / "examples/handbook/questions.tsv").read_text().splitlines():
        text, heading = line.split("\t")
        start = content.index(f"## {heading}")
        expected = {"documentName": "handbook.md", "start": start, "end": start + EXPECTED_CHARACTERS}
        asked.append({"text": text, "passages": [expected]})
    body = {"name": "Tenants", "base": base, "questions": asked}
    path = handbook.bases.call("POST", "/ragstore/questions", json=body).headers["Location"].partition("?")[0]
    tab = open_tab(handbook.url, f"#/questions/{path.rpartition('/')[2]}/runs", viewport={"width": 1180, "height": 720})
    runs = tab.page.get_by_role("group", name="Runs").get_by_role("row")
    for number in (1, 2):
        tab.page.get_by_role("button", name="Run", exact=True).click()
        eventually(lambda number=number: runs.count() == number + 1 and "completed" in runs.nth(1).inner_text())  # type: ignore[misc]  # mypy cannot infer the lambda
        current = f"/ragstore/rags/{base}"
        changed = {**handbook.bases.call("GET", current).json(), "minScore": 0.72 if number == 1 else 0.0}
        handbook.bases.call("PUT", current, params={"version": number}, json=changed)
    runs.nth(1).get_by_role("link").click()
    tab.page.get_by_role("region", name="Outcomes").get_by_role("row").nth(1).wait_for()
    for scheme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=scheme)
        taken(tab, f"questions-{scheme}")


def test_the_screenshots_of_a_comparison_can_be_taken(open_tab: OpenTab, handbook: Chats) -> None:
    (found,) = handbook.bases.call("GET", "/ragstore/rags/descriptors", params={"filter": "House handbook"}).json()
    base = found["resource"].rpartition("/")[2].partition("?")[0]
    address = f"#/compare?a=base%20{base}&b=base%20{base}"
    tab = open_tab(handbook.url, address, viewport={"width": 1180, "height": 720})
    side(tab, "B", "group").get_by_label("Minimum score").fill("0.72")
    compare(tab, QUESTION)
    for name in ("A", "B"):
        side(tab, name).get_by_role("list", name="Passages").wait_for()
    tab.page.get_by_role("button", name="Compare").evaluate("button => button.scrollIntoView()")
    for scheme in ("light", "dark"):
        tab.page.emulate_media(color_scheme=scheme)
        taken(tab, f"compare-{scheme}")
