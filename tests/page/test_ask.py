"""The area Ask: streamed replies, citations that open their documents, and the passages that the model got."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.page.bases import Bases
from tests.page.chats import MODEL, QUESTION, TEA, Chats, HeldReply, ask, models, opened
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.page.test_document_text import MARKED
from tests.support.fake_upstream import Exchange, answer, delta, replying, responding, stream_of
from tests.support.keyed_services import eventually
from tests.support.servers import Served

GROUNDED: Final = stream_of("It is brewed", " in the kitchen [1].")


@pytest.fixture(autouse=True)
def grounded(chats: Chats) -> None:
    """Each test begins with the same reply."""
    chats.reply(GROUNDED)
    chats.upstream.off("models")


def chunks(chats: Chats, name: str) -> list[str]:
    """The texts of the chunks of a document."""
    path = f"/ragstore/rags/{chats.base}"
    text = chats.bases.call("GET", f"{path}/texts/{quote(name, safe='')}").json()["text"]
    body = {"documentName": name, "limit": 1000}
    found = chats.bases.call("POST", f"{path}/split", json=body).json()["chunks"]
    return [text[each["start"] : each["end"]] for each in found]


def listed(tab: Tab) -> list[str]:
    """The texts of the passages below the last reply."""
    tab.page.get_by_role("article").last.locator("summary").wait_for()
    return [str(each) for each in tab.page.get_by_role("article").last.locator(".passage").all_inner_texts()]


def cite(tab: Tab, number: int = 1) -> Any:
    """The button of a citation."""
    return tab.page.get_by_role("button", name=f"Passage {number}: ").first


def panel(tab: Tab) -> Any:
    """The passage beside the chat."""
    return tab.page.get_by_role("complementary", name="Passage")


def test_a_reply_is_shown_while_it_comes(open_tab: OpenTab, chats: Chats) -> None:
    held = HeldReply("It is brewed", " in the kitchen [1].")
    chats.reply(held)
    tab = opened(open_tab, chats)
    ask(tab)
    tab.page.locator(".reply").get_by_text("It is brewed").wait_for()
    assert cite(tab).count() == 0
    held.released.set()
    cite(tab).wait_for()
    assert "It is brewed in the kitchen [1]." in tab.page.locator(".reply").inner_text()


def test_the_passages_below_a_reply_are_those_that_the_model_got(open_tab: OpenTab, chats: Chats) -> None:
    tab = opened(open_tab, chats)
    ask(tab)
    shown = listed(tab)
    prompt = chats.prompt
    in_prompt = {each for name in ("shelf/tea 😀?.txt", "oven.txt") for each in chunks(chats, name) if each in prompt}

    assert len(shown) > 1
    assert {each.strip() for each in shown} == {each.strip() for each in in_prompt}


def test_a_citation_opens_its_document_with_the_passage_marked(open_tab: OpenTab, chats: Chats) -> None:
    tab = opened(open_tab, chats)
    ask(tab)
    cite(tab).click()
    panel(tab).get_by_role("link", name="Open in Knowledge bases").wait_for()
    (marked,) = eventually(lambda: tab.page.evaluate(MARKED, "chunk-chosen"))
    assert "tea of day 3" in marked
    assert marked in chunks(chats, "shelf/tea 😀?.txt")
    assert panel(tab).locator(".text").text_content() == TEA
    panel(tab).get_by_role("link", name="Open in Knowledge bases").click()
    tab.page.get_by_role("heading", name="shelf/tea 😀?.txt").wait_for()
    assert eventually(lambda: tab.page.evaluate(MARKED, "chunk-chosen")) == [marked]


def test_each_passage_of_the_list_opens_beside_the_chat(open_tab: OpenTab, chats: Chats) -> None:
    tab = opened(open_tab, chats)
    ask(tab)
    texts = listed(tab)

    def is_marked(text: str) -> bool:
        return [each.strip() for each in tab.page.evaluate(MARKED, "chunk-chosen")] == [text.strip()]

    for number, text in enumerate(texts):
        tab.page.get_by_role("button", name="Open passage").nth(number).click()
        eventually(partial(is_marked, text))


def test_a_question_is_asked_and_a_citation_read_without_a_mouse(open_tab: OpenTab, chats: Chats) -> None:
    tab = opened(open_tab, chats)
    tab.page.locator("select:enabled").wait_for()
    focused = (
        "(document.activeElement.getAttribute('aria-label') ?? document.activeElement.labels?.[0]?.innerText ?? '')"
    )

    def tab_to(name: str, key: str = "Tab") -> None:
        for _ in range(30):
            tab.page.keyboard.press(key)
            if str(tab.page.evaluate(focused)).startswith(name):
                return
        raise AssertionError(f"Tab does not reach {name}")

    tab_to("Question")
    tab.page.keyboard.type(QUESTION)
    tab.page.keyboard.press("Enter")
    cite(tab).wait_for()
    tab_to("Passage 1: ", "Shift+Tab")
    tab.page.keyboard.press("Enter")
    panel(tab).wait_for()
    assert tab.page.evaluate(focused) == "Passage"
    tab.page.keyboard.press("Escape")
    panel(tab).wait_for(state="detached")
    assert str(tab.page.evaluate(focused)).startswith("Passage 1: ")


def test_a_reply_that_is_stopped_keeps_its_text_and_ends_the_call(open_tab: OpenTab, chats: Chats) -> None:
    held = HeldReply("It is brewed", " in the kitchen [1].")
    chats.reply(held)
    tab = opened(open_tab, chats)
    ask(tab)
    tab.page.locator(".reply").get_by_text("It is brewed").wait_for()
    tab.page.get_by_role("button", name="Stop").click()
    tab.see("Stopped.")
    tab.see("It is brewed")
    assert tab.page.get_by_role("alert").count() == 0
    held.released.set()
    chats.reply(GROUNDED)
    ask(tab, "And of day 4?")
    cite(tab).wait_for()


def test_a_reply_is_copied_as_the_model_wrote_it(open_tab: OpenTab, chats: Chats) -> None:
    chats.reply(stream_of("It is **brewed** [1]."))
    tab = opened(open_tab, chats, permissions=["clipboard-read", "clipboard-write"])
    ask(tab)
    tab.page.get_by_role("button", name="Copy reply").click()
    tab.see("Copied")
    assert tab.page.evaluate("navigator.clipboard.readText()") == "It is **brewed** [1]."


def test_a_further_question_has_the_conversation_so_far(open_tab: OpenTab, chats: Chats) -> None:
    tab = opened(open_tab, chats)
    ask(tab)
    cite(tab).wait_for()
    ask(tab, "And of day 4?")
    eventually(lambda: tab.page.get_by_role("article").last.locator("summary").count())
    messages = [each for each in chats.upstream.chats()[-1].json["messages"] if each["role"] != "system"]
    assert messages == [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "It is brewed in the kitchen [1]."},
        {"role": "user", "content": "And of day 4?"},
    ]
    tab.page.get_by_role("button", name="New chat").click()
    assert tab.page.get_by_role("article").count() == 0


def test_the_texts_live_in_the_tab_only(open_tab: OpenTab, chats: Chats) -> None:
    tab = opened(open_tab, chats)
    ask(tab)
    cite(tab).wait_for()
    tab.show("#/health")
    tab.see("Embedding model")
    tab.show("#/ask")
    tab.see("It is brewed in the kitchen")
    assert "tea" not in tab.address()
    assert tab.page.evaluate("localStorage.length + sessionStorage.length") == 0
    tab.page.reload()
    tab.see("Ask a question")
    assert tab.page.get_by_role("article").count() == 0


def test_a_base_shows_its_passages_and_no_model_is_asked(open_tab: OpenTab, chats: Chats) -> None:
    before = len(chats.upstream.chats())
    tab = open_tab(chats.url, f"#/ask?base={chats.base}")
    ask(tab)
    body = {"query": QUESTION}
    found = chats.bases.call("POST", f"/ragstore/rags/{chats.base}/query", json=body).json()["results"]
    assert [each.strip() for each in listed(tab)] == [each["text"].strip() for each in found]
    assert len(chats.upstream.chats()) == before
    tab.page.get_by_role("button", name="Open passage 1").click()
    assert eventually(lambda: tab.page.evaluate(MARKED, "chunk-chosen")) == [found[0]["text"]]


def test_without_a_model_server_there_are_passages_only(open_tab: OpenTab, gateway: Served) -> None:
    tab = open_tab(gateway.url, "#/ask")
    tab.see("This gateway has no model server")
    tab.page.locator("select:enabled").select_option(label="House handbook")
    ask(tab, "How often is the boiler serviced?")
    assert len(listed(tab)) > 1
    assert tab.page.locator("optgroup").count() == 1
    assert not [each for each in tab.requests if "/v1/" in each]


def test_the_model_is_in_the_address(open_tab: OpenTab, chats: Chats) -> None:
    chats.upstream.on("models", responding(models(MODEL)))
    tab = open_tab(chats.url, "#/ask")
    tab.page.locator("select:enabled").select_option(label=f"rag/{MODEL}")
    eventually(lambda: tab.address().endswith(f"?model=rag%2F{MODEL}"))
    ask(tab, "What is stored?")
    eventually(lambda: chats.upstream.chats()[-1].json["messages"][-1]["content"].endswith("What is stored?"))


def test_why_there_are_no_passages_is_said(open_tab: OpenTab, chats: Chats) -> None:
    chats.reply(stream_of("You are welcome."))
    tab = opened(open_tab, chats)
    ask(tab, "thanks!")
    tab.see("The message is too short to be searched for.")


def test_the_response_of_an_http_call_is_named_and_has_no_text(open_tab: OpenTab, chats: Chats) -> None:
    chats.upstream.on("api", responding(b'{"text": "A page about kettles."}'))
    call = {"url": f"{chats.upstream.url}/find/api", "pointer": "/text"}
    task = {"id": "t", "httpCallRag": "search-api"}
    chats.assistant("caller", "Kitchen", tasks=[task], httpCalls={"search-api": call})
    tab = opened(open_tab, chats, "rag/caller")
    ask(tab)
    tab.see("This is the response of an HTTP call.")
    assert "A page about kettles." in chats.prompt
    assert "A page about kettles." not in tab.text()


def test_a_plain_response_of_the_model_server_is_shown_too(open_tab: OpenTab, chats: Chats) -> None:
    chats.reply(replying("It is brewed in the kitchen [1]."))
    tab = opened(open_tab, chats)
    ask(tab)
    cite(tab).click()
    assert "tea of day 3" in eventually(lambda: tab.page.evaluate(MARKED, "chunk-chosen"))[0]


def test_a_document_that_changed_after_the_reply_shows_what_the_model_got(open_tab: OpenTab, chats: Chats) -> None:
    base = chats.bases.filled("Changing", {"pot.txt": "The pot is blue and stands on the shelf."})
    chats.assistant("changing", "Changing")
    tab = opened(open_tab, chats, "rag/changing")
    ask(tab, "Where does the pot stand?")
    cite(tab).wait_for()
    chats.bases.send(base, "pot.txt", "Nothing of this was in the prompt. The pot is gone.")
    path = f"/ragstore/rags/{base}/texts/pot.txt"
    eventually(lambda: "gone" in chats.bases.call("GET", path).json()["text"])
    cite(tab).click()
    panel(tab).get_by_text("The document has changed since the reply.").wait_for()
    assert panel(tab).locator("mark").inner_text() == "The pot is blue and stands on the shelf."
    panel(tab).get_by_role("button", name="Close").click()
    chats.bases.call("DELETE", f"/ragstore/rags/{base}/documents/pot.txt")
    cite(tab).click()
    panel(tab).get_by_text("The text of the document cannot be read.").wait_for()
    assert panel(tab).locator("mark").inner_text() == "The pot is blue and stands on the shelf."


async def dropped(exchange: Exchange) -> None:
    """A stream that breaks."""
    await exchange.begin_stream()
    await exchange.chunk(delta("It is", MODEL))
    exchange.drop()


async def failed(exchange: Exchange) -> None:
    """A stream that ends with an error."""
    await exchange.begin_stream()
    await exchange.chunk(delta("It is", MODEL))
    error = {"error": {"message": "The model is out of memory", "type": "server_error", "code": "out_of_memory"}}
    await exchange.chunk(b"data: " + json.dumps(error).encode() + b"\n\n")
    await exchange.end_stream()


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (responding(b'{"error": {"message": "No such model"}}', "404 Not Found"), "No such model"),
        (dropped, "upstream"),
        (failed, "The model is out of memory"),
    ],
)
def test_a_failure_of_the_model_server_is_said_in_place(
    open_tab: OpenTab, chats: Chats, behaviour: Any, message: str
) -> None:
    chats.reply(behaviour)
    tab = opened(open_tab, chats)
    ask(tab)
    alert = tab.page.get_by_role("alert")
    alert.get_by_text(message).first.wait_for()
    if behaviour in (dropped, failed):
        assert tab.page.locator(".reply").inner_text() == "It is"
    chats.reply(GROUNDED)
    alert.get_by_role("button", name="Retry").click()
    cite(tab).wait_for()
    assert alert.count() == 0
    assert tab.page.get_by_role("article").count() == 1


def test_a_stream_that_is_cut_on_its_way_is_an_error_in_place(open_tab: OpenTab, chats: Chats) -> None:
    tab = opened(open_tab, chats)
    part = b'data: {"choices": [{"delta": {"content": "It is"}}]}\n\n'
    tab.page.route("**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body=part))
    ask(tab)
    tab.page.get_by_role("alert").get_by_text("The reply was cut").wait_for()
    tab.page.unroute("**/v1/chat/completions")
    tab.page.get_by_role("button", name="Retry").click()
    cite(tab).wait_for()


def test_an_overload_is_counted_down_and_the_question_asked_again(open_tab: OpenTab, chats: Chats) -> None:
    async def once(exchange: Exchange) -> None:
        chats.reply(GROUNDED)
        body = b'{"error": {"message": "Too many requests", "code": "overloaded"}}'
        await exchange.respond(body, status="429 Too Many Requests", headers=["Retry-After: 2"])

    chats.reply(once)
    tab = opened(open_tab, chats)
    ask(tab)
    alert = tab.page.get_by_role("alert")
    alert.get_by_text("Again in 1 s").wait_for()
    cite(tab).wait_for()
    assert tab.page.get_by_role("article").count() == 1


def test_a_model_server_that_is_away_leaves_the_bases(open_tab: OpenTab, chats: Chats) -> None:
    chats.upstream.on("models", responding(b"{}", "503 Service Unavailable"))
    tab = open_tab(chats.url, f"#/ask?base={chats.base}")
    tab.page.get_by_role("alert").first.wait_for()
    ask(tab)
    assert len(listed(tab)) > 1
    chats.upstream.on("models", answer)
    tab.page.get_by_role("alert").wait_for(state="detached")


def test_a_base_without_documents_says_that_no_passage_fits(open_tab: OpenTab, bases: Bases) -> None:
    tab = open_tab(bases.url, f"#/ask?base={bases.create('Nothing to find')}")
    ask(tab)
    tab.see("No passage fits the question.")
