"""The area Compare: one question to two bases or assistants, and the fate of each passage."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.page.chats import QUESTION, Chats
from tests.page.comparisons import compare, passages, side
from tests.page.conftest import OpenTab
from tests.page.tab import NARROW, WIDE, Tab
from tests.support.keyed_services import eventually

FATES: Final = {"below_min_score": "below the minimum score", "ranked_away": "others rank before it"}


def retrieved(chats: Chats, **fields: Any) -> Any:
    """The response of the gateway to a question."""
    return chats.bases.call("POST", "/ragstore/retrieve", json={"question": QUESTION, **fields}).json()


def opened(open_tab: OpenTab, a: str, b: str, chats: Chats) -> Tab:
    """A tab at the area, with the targets of both sides."""
    tab = open_tab(chats.url, f"#/compare?a={a}&b={b}")
    side(tab, "B", "group").wait_for()
    return tab


def assistant_id(chats: Chats, name: str) -> str:
    """The id of an assistant."""
    (found,) = chats.bases.call("GET", "/ragstore/assistants/descriptors", params={"filter": name}).json()
    return str(found["resource"]).rpartition("/")[2].partition("?")[0]


def test_each_side_lists_its_passages_with_their_fates(open_tab: OpenTab, chats: Chats) -> None:
    tab = opened(open_tab, f"base%20{chats.base}", f"base%20{chats.base}", chats)
    side(tab, "B", "group").get_by_label("Number of results").fill("2")
    side(tab, "B", "group").get_by_label("Minimum score").fill("0.7")
    before = len(chats.upstream.chats())
    compare(tab, QUESTION)
    for name, fields in (("A", {}), ("B", {"maxResults": 2, "minScore": 0.7})):
        found = retrieved(chats, base=chats.base, **fields)["passages"]
        expected = sorted(found, key=lambda each: (each.get("number", 1000), -each["score"]))
        assert [fate for fate, _ in passages(tab, name)] == [
            f"[{each['number']}]" if "number" in each else FATES[each["fate"]] for each in expected
        ]
        assert [text for _, text in passages(tab, name)] == [each["text"].strip() for each in expected]
    assert "B: below the minimum score" in side(tab, "A").inner_text() or "B: not found" in side(tab, "A").inner_text()
    tab.see("in both prompts")
    assert len(chats.upstream.chats()) == before


def test_the_prompt_of_an_assistant_is_the_one_that_the_model_gets_in_a_chat(open_tab: OpenTab, chats: Chats) -> None:
    chats.bases.call(
        "POST",
        "/v1/chat/completions",
        json={"model": "rag/cook", "messages": [{"role": "user", "content": QUESTION}]},
    )
    tab = opened(open_tab, f"assistant%20{assistant_id(chats, 'cook')}", "plain", chats)
    compare(tab, QUESTION)
    side(tab, "A").get_by_text("Prompt:").click()
    side(tab, "A").locator(".text").first.wait_for()
    assert "\n".join(side(tab, "A").locator(".text").all_text_contents()) == chats.prompt
    side(tab, "A").get_by_text("Time of each part").click()
    side(tab, "A").get_by_role("cell", name="search vectors Kitchen").wait_for()
    side(tab, "B").get_by_text("The model searches no knowledge base").wait_for()
    assert QUESTION not in tab.address()
    tab.show("#/health")
    tab.see("Embedding model")
    tab.page.go_back()
    side(tab, "A").get_by_role("list", name="Passages").wait_for()


def test_an_assistant_is_edited_for_a_comparison_and_is_not_stored(open_tab: OpenTab, chats: Chats) -> None:
    path = f"assistant%20{assistant_id(chats, 'cook')}"
    tab = opened(open_tab, path, path, chats)
    form = side(tab, "B", "group")
    form.get_by_role("button", name="Edit for this comparison").click()
    field = form.get_by_label("Assistant as JSON")
    edited = {**json.loads(field.input_value()), "systemMessage": "Only for B."}
    field.fill("{")
    compare(tab, QUESTION)
    tab.page.get_by_role("alert").wait_for()
    field.fill(json.dumps(edited))
    compare(tab, QUESTION)
    side(tab, "B").get_by_text("Prompt:").click()
    side(tab, "B").get_by_text("Only for B.").wait_for()
    assert "Only for B." not in side(tab, "A").inner_text()
    field.fill(json.dumps({**edited, "workflow": ["nowhere"]}))
    compare(tab, QUESTION)
    side(tab, "B").get_by_role("alert").get_by_text("There is no knowledge base of this name").wait_for()
    side(tab, "A").get_by_role("list", name="Passages").wait_for()
    form.get_by_role("button", name="Use the stored assistant").click()
    compare(tab, QUESTION)
    eventually(lambda: passages(tab, "A") == passages(tab, "B"))


def test_the_area_compare_has_no_fault_of_accessibility_and_does_not_scroll_sideways(
    open_tab: OpenTab, chats: Chats
) -> None:
    tab = opened(open_tab, f"base%20{chats.base}", f"assistant%20{assistant_id(chats, 'cook')}", chats)
    found: dict[str, object] = {}

    def look(screen: str) -> None:
        for scheme in ("light", "dark"):
            tab.page.emulate_media(color_scheme=scheme)
            found[f"{screen}, {scheme}"] = tab.faults()
        for size, viewport in (("100%", NARROW), ("200%", {"width": 640, "height": 800})):
            tab.page.set_viewport_size(viewport)
            tab.page.evaluate("size => { document.documentElement.style.fontSize = size; }", size)
            found[f"{screen}, {size}"] = [] if not tab.overflows() else ["scrolls sideways"]
        tab.page.evaluate("document.documentElement.style.fontSize = ''")
        tab.page.set_viewport_size(WIDE)

    look("empty")
    side(tab, "B", "group").get_by_role("button", name="Edit for this comparison").click()
    side(tab, "B", "group").get_by_label("Assistant as JSON").wait_for()
    compare(tab, QUESTION)
    for name in ("A", "B"):
        side(tab, name).get_by_text("Prompt:").click()
        side(tab, name).get_by_text("Time of each part").click()
    look("passages")
    side(tab, "A", "group").get_by_label("Minimum score").fill("0.5")
    side(tab, "A", "group").get_by_text("Filter as JSON").click()
    side(tab, "A", "group").get_by_label("Filter as JSON").fill('{"page": {"$bad": 1}}')
    compare(tab, QUESTION)
    side(tab, "A").get_by_role("alert").wait_for()
    look("error")
    assert found == {screen: [] for screen in found}
