"""The area Questions: question sets, their expected passages, and their runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.page.chats import QUESTION, TEA, Chats, ask
from tests.page.conftest import OpenTab
from tests.page.tab import NARROW, WIDE, Tab
from tests.support.fake_upstream import stream_of
from tests.support.held_provider import HeldProvider
from tests.support.keyed_services import eventually
from tests.support.servers import Served

OVEN: Final = "How is the oven cleaned?"
TEA_NAME: Final = "shelf/tea \U0001f600?.txt"


def created(chats: Chats, name: str, *questions: dict[str, Any]) -> str:
    """Create a set of the base; its path."""
    body = {"name": name, "base": chats.base, "questions": list(questions)}
    location = chats.bases.call("POST", "/ragstore/questions", json=body).headers["Location"]
    return str(location).partition("?")[0]


def questions(chats: Chats, path: str) -> list[dict[str, Any]]:
    """The questions of the current version of a set."""
    found: list[dict[str, Any]] = chats.bases.call("GET", path).json()["questions"]
    return found


def opened(open_tab: OpenTab, chats: Chats, path: str, below: str = "") -> Tab:
    """A tab at a set."""
    return open_tab(chats.url, f"#/questions/{path.rpartition('/')[2]}{below}")


def save(tab: Tab, version: int) -> None:
    """Save the draft, and wait until it is the current version."""
    tab.page.get_by_role("button", name=f"Save as version {version}").click()
    tab.page.get_by_role("button", name=f"Save as version {version + 1}").wait_for()


def run(tab: Tab, number: int) -> Any:
    """Run a set; the row of the run, which is the newest of a number of runs."""
    tab.page.get_by_role("button", name="Run", exact=True).click()
    rows = tab.page.get_by_role("group", name="Runs").locator("tbody tr")
    eventually(lambda: rows.count() == number and "completed" in rows.first.inner_text())
    return rows.first


def test_a_set_is_created_and_labelled_without_a_mouse(open_tab: OpenTab, chats: Chats) -> None:
    tab = open_tab(chats.url, "#/questions")
    tab.page.get_by_role("button", name="Create a question set").press("Enter")
    tab.page.get_by_label("Name *").fill("Made by keys")
    tab.page.get_by_label("Knowledge base").select_option(label="Kitchen")
    tab.page.get_by_role("button", name="Add a question").press("Enter")
    tab.page.get_by_label("Question", exact=True).fill(QUESTION)
    tab.page.get_by_role("button", name="Find passages").press("Enter")
    passages = tab.page.get_by_role("list", name="Passages")
    passages.get_by_role("checkbox").first.focus()
    for key in "nyy":
        tab.page.keyboard.press(key)
    tab.page.keyboard.press("n")
    labels = passages.get_by_role("checkbox")
    assert [labels.nth(number).is_checked() for number in range(4)] == [False, True, True, False]
    tab.page.get_by_role("button", name="Save as version 1").press("Enter")
    tab.page.get_by_role("link", name="Runs").wait_for()
    (listed,) = chats.bases.call("GET", "/ragstore/questions/descriptors", params={"filter": "Made by keys"}).json()
    (question,) = questions(chats, listed["resource"].partition("?")[0])
    found = chats.bases.call(
        "POST", f"/ragstore/rags/{chats.base}/query", json={"query": QUESTION, "maxResults": 20, "minScore": 0}
    ).json()["results"]
    expected = [found[rank]["metadata"] for rank in (1, 2)]
    assert question["text"] == QUESTION
    assert question["passages"] == [
        {"documentName": each["document_name"], "start": each["char_start"], "end": each["char_end"]}
        for each in expected
    ]


def test_a_passage_that_is_selected_in_a_text_is_expected_by_its_code_points(open_tab: OpenTab, chats: Chats) -> None:
    path = created(chats, "Selected", {"text": QUESTION})
    tab = opened(open_tab, chats, path)
    tab.page.get_by_text(QUESTION).click()
    tab.page.get_by_text("Add a passage of a document").click()
    tab.page.get_by_label("Name of the document").fill(TEA_NAME)
    tab.page.get_by_role("button", name="Show the text").click()
    text = tab.page.locator(".marked .text")
    text.wait_for()
    text.evaluate(
        """(text, part) => {
          const node = text.querySelector("bdi").firstChild;
          const start = node.data.indexOf(part);
          getSelection().setBaseAndExtent(node, start, node, start + part.length);
          text.click();
        }""",
        "Section 3: the tea",
    )
    start = TEA.index("Section 3: the tea")
    eventually(lambda: tab.page.get_by_label("Start", exact=True).input_value() == str(start))
    tab.page.get_by_role("button", name="Add", exact=True).click()
    tab.page.get_by_label("Name of the document").fill("oven.txt")
    tab.page.get_by_label("Start", exact=True).fill("")
    tab.page.get_by_role("button", name="Add", exact=True).click()
    save(tab, 2)
    assert questions(chats, path)[0]["passages"] == [
        {"documentName": TEA_NAME, "start": start, "end": start + len("Section 3: the tea")},
        {"documentName": "oven.txt", "start": None, "end": None},
    ]


def test_files_of_questions_are_imported_and_a_set_is_exported(open_tab: OpenTab, chats: Chats, tmp_path: Path) -> None:
    span = {"documentName": TEA_NAME, "start": 2, "end": 9}
    path = created(chats, "Files", {"text": OVEN, "passages": [span]})
    tab = opened(open_tab, chats, path)
    files = {
        "more.tsv": f"{OVEN}\toven.txt\nWhere is tea?\t{TEA_NAME}, oven.txt\n",
        "lines.jsonl": json.dumps({"text": "Who?", "relevant": {"oven.txt": 2}}) + "\n",
        "bad.jsonl": '{"text": "Ok"}\n{"text": 3}\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        tab.page.get_by_label("Import").set_input_files(tmp_path / name)
        tab.page.get_by_text("bad.jsonl, line 2" if name == "bad.jsonl" else "expected").last.wait_for()
        if name == "more.tsv":
            tab.page.get_by_text("2 questions", exact=True).wait_for()
    with tab.page.expect_download() as download:
        tab.page.get_by_role("button", name="Export").click()
    exported = json.loads(Path(download.value.path()).read_text())
    assert [(each["text"], [one["documentName"] for one in each["passages"]]) for each in exported["questions"]] == [
        (OVEN, ["oven.txt"]),
        ("Where is tea?", [TEA_NAME, "oven.txt"]),
        ("Who?", ["oven.txt"]),
    ]
    save(tab, 2)
    assert len(questions(chats, path)) == 3


def test_a_draft_stays_in_the_tab_and_a_conflict_changes_nothing(open_tab: OpenTab, chats: Chats) -> None:
    path = created(chats, "Contested", {"text": OVEN})
    tab = opened(open_tab, chats, path)
    tab.page.get_by_role("button", name="Add a question").click()
    tab.page.get_by_label("Question", exact=True).fill("Mine?")
    tab.show("#/health")
    tab.see("Embedding model")
    tab.page.go_back()
    tab.see("Mine?")
    body = {**chats.bases.call("GET", path).json(), "description": "theirs"}
    chats.bases.call("PUT", path, params={"version": 1}, json=body)
    tab.page.get_by_role("button", name="Save as version 2").click()
    tab.page.get_by_role("alert").wait_for()
    assert [each["text"] for each in questions(chats, path)] == [OVEN]
    tab.page.get_by_role("button", name="Discard changes").click()
    tab.page.get_by_role("button", name="Save as version 3").wait_for()
    assert tab.page.get_by_label("Description").input_value() == "theirs"
    tab.page.get_by_role("button", name="Delete", exact=True).click()
    tab.page.get_by_role("dialog").get_by_label("Type the name to confirm").fill("Contested")
    tab.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    tab.page.get_by_role("button", name="Create a question set").wait_for()
    listed = chats.bases.call("GET", "/ragstore/questions/descriptors", params={"filter": "Contested"}).json()
    assert listed == []


@pytest.fixture(scope="module")
def measured(chats: Chats) -> str:
    """The path of a set of a base of its own, with two questions that are found."""
    base = chats.bases.filled(
        "Measured", {"oven.txt": "The oven is cleaned with vinegar.", "tea.txt": "Tea is brewed."}
    )
    expected = [{"documentName": "oven.txt"}]
    asked = [{"text": OVEN, "passages": expected}, {"text": "Vinegar?", "passages": expected}, {"text": "Why?"}]
    body = {"name": "Runs", "base": base, "questions": asked}
    return str(chats.bases.call("POST", "/ragstore/questions", json=body).headers["Location"]).partition("?")[0]


def test_a_run_shows_its_figures_and_the_questions_that_it_loses(
    open_tab: OpenTab, chats: Chats, measured: str
) -> None:
    tab = opened(open_tab, chats, measured, "/runs")
    tab.see("The set has not been run.")
    first = run(tab, 1)
    assert first.locator("td").all_inner_texts()[1:5] == ["1", "1", "2", "1.000"]
    base = f"/ragstore/rags/{chats.bases.call('GET', measured).json()['base']}"
    body = {**chats.bases.call("GET", base).json(), "minScore": 1.0}
    chats.bases.call("PUT", base, params={"version": 1}, json=body)
    second = run(tab, 2)
    assert [text.strip() for text in second.locator("td").all_inner_texts()[1:]] == [
        *("1", "2", "2"),
        *["0.000 \N{MINUS SIGN}1.000"] * 3,
        *("0", "2"),
    ]
    tab.page.get_by_label("Passages (k)").select_option("1")
    second.get_by_role("link").click()
    outcomes = tab.page.get_by_role("region", name="Outcomes")
    outcomes.get_by_role("button", name="▼ lost 2").click()
    rows = outcomes.locator("tbody tr")
    eventually(lambda: rows.count() == 2)
    assert rows.first.locator("td").all_inner_texts() == [OVEN, "▼ lost", "not found", "1", "0.000", "0.000"]
    outcomes.get_by_role("button", name="▲ won 0").click()
    eventually(lambda: rows.count() == 0)


@pytest.fixture
def held_run(request: pytest.FixtureRequest, chats: Chats, provider: HeldProvider) -> str:
    """The path of a set whose runs end when the provider is released: it holds the last of three questions."""
    provider.held_text = "Held?"
    base = chats.bases.filled(request.node.name, {"oven.txt": "The oven is cleaned with vinegar."}, **provider.base())
    asked = [{"text": text, "passages": [{"documentName": "oven.txt"}]} for text in (OVEN, "Vinegar?", "Held?")]
    body = {"name": "Held", "base": base, "questions": asked}
    return str(chats.bases.call("POST", "/ragstore/questions", json=body).headers["Location"]).partition("?")[0]


def test_a_run_shows_its_progress_and_is_cancelled(open_tab: OpenTab, chats: Chats, held_run: str) -> None:
    tab = opened(open_tab, chats, held_run, "/runs")
    tab.page.get_by_role("button", name="Run", exact=True).click()
    row = tab.page.get_by_role("group", name="Runs").locator("tbody tr").first
    row.get_by_text("2 of 3 questions").wait_for()
    bar = row.get_by_role("progressbar", name="Questions that were searched for")
    assert (bar.get_attribute("value"), bar.get_attribute("max")) == ("2", "3")
    assert tab.faults() == []
    tab.page.set_viewport_size(NARROW)
    assert not tab.overflows()
    tab.page.set_viewport_size(WIDE)
    row.get_by_role("button", name="Cancel run").click()
    row.get_by_text("cancelled requested").wait_for()
    assert row.get_by_role("progressbar").count() == 0
    (run,) = chats.bases.call("GET", f"{held_run}/runs").json()["runs"]
    assert (run["status"], run["searched"], "figures" in run) == ("cancelled", 2, False)


def test_a_run_that_has_ended_meanwhile_is_not_cancelled(
    open_tab: OpenTab, chats: Chats, provider: HeldProvider, held_run: str
) -> None:
    tab = opened(open_tab, chats, held_run, "/runs")
    tab.page.get_by_role("button", name="Run", exact=True).click()
    row = tab.page.get_by_role("group", name="Runs").locator("tbody tr").first
    row.get_by_text("2 of 3 questions").wait_for()
    # The page does not learn of the end before the button is used.
    tab.page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true })")
    provider.released.set()
    eventually(lambda: chats.bases.call("GET", f"{held_run}/runs").json()["runs"][0]["status"] == "completed")
    row.get_by_role("button", name="Cancel run").click()
    tab.page.get_by_role("alert").get_by_text("has ended already").wait_for()
    row.get_by_text("completed").wait_for()


def test_a_question_that_is_not_accepted_is_opened(open_tab: OpenTab, chats: Chats) -> None:
    path = created(chats, "Blank", {"text": OVEN})
    tab = opened(open_tab, chats, path)
    tab.page.get_by_role("button", name="Add a question").click()
    tab.page.get_by_text(OVEN).click()
    tab.page.get_by_role("button", name="Save as version 2").click()
    tab.page.get_by_role("alert").get_by_text("$.questions[1].text").wait_for()
    eventually(lambda: tab.page.get_by_label("Question", exact=True).input_value() == "")
    assert [each["text"] for each in questions(chats, path)] == [OVEN]


def test_a_set_without_expected_passages_is_not_run(open_tab: OpenTab, chats: Chats) -> None:
    tab = opened(open_tab, chats, created(chats, "Nothing expected", {"text": OVEN}), "/runs")
    tab.page.get_by_role("button", name="Run", exact=True).click()
    tab.page.get_by_role("alert").get_by_text("No question of the set has an expected passage").wait_for()


def test_the_area_questions_has_no_fault_of_accessibility_and_does_not_scroll_sideways(
    open_tab: OpenTab, chats: Chats, gateway: Served, measured: str
) -> None:
    found: dict[str, object] = {}

    def look(tab: Tab, screen: str) -> None:
        for scheme in ("light", "dark"):
            tab.page.emulate_media(color_scheme=scheme)
            found[f"{screen}, {scheme}"] = tab.faults()
        for size, viewport in (("100%", NARROW), ("200%", {"width": 640, "height": 800})):
            tab.page.set_viewport_size(viewport)
            tab.page.evaluate("size => { document.documentElement.style.fontSize = size; }", size)
            found[f"{screen}, {size}"] = [] if not tab.overflows() else ["scrolls sideways"]
        tab.page.evaluate("document.documentElement.style.fontSize = ''")
        tab.page.set_viewport_size(WIDE)

    empty = open_tab(gateway.url, "#/questions")
    empty.see("There is no question set yet")
    look(empty, "empty")
    tab = open_tab(chats.url, "#/questions/nowhere")
    tab.page.get_by_role("alert").wait_for()
    look(tab, "error")
    number = measured.rpartition("/")[2]
    tab.page.route("**/questions/*/runs*", lambda route: None)
    tab.show(f"#/questions/{number}/runs")
    tab.page.get_by_role("status", name="Loading").wait_for()
    look(tab, "loading")
    tab.page.unroute("**/questions/*/runs*")
    tab.show("#/questions")
    tab.page.get_by_role("link", name="Runs").click()
    tab.page.get_by_text(OVEN).click()
    tab.page.get_by_role("button", name="Find passages").click()
    tab.page.get_by_role("list", name="Passages").wait_for()
    tab.page.get_by_text("Add a passage of a document").click()
    tab.page.get_by_label("Name of the document").fill("oven.txt")
    tab.page.get_by_role("button", name="Show the text").click()
    tab.page.locator(".marked .text").wait_for()
    look(tab, "question")
    tab.page.get_by_role("link", name="Runs").click()
    run(tab, chats.bases.call("GET", f"{measured}/runs").json()["total"] + 1).get_by_role("link").click()
    tab.page.get_by_role("region", name="Outcomes").locator("tbody tr").first.wait_for()
    look(tab, "runs")
    tab.show("#/questions")
    tab.page.get_by_role("link", name="Runs").wait_for()
    look(tab, "list")
    assert found == {screen: [] for screen in found}


def add_to_set(tab: Tab, choice: str) -> Any:
    """Open the dialog for the last question of a chat, and choose a set; the dialog."""
    tab.page.get_by_role("article").last.get_by_role("button", name="Add to a question set").click()
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("Question set").select_option(label=choice)
    return dialog


def test_a_question_of_a_chat_is_added_with_the_passages_that_the_reply_cites(open_tab: OpenTab, chats: Chats) -> None:
    path = created(chats, "From a chat")
    chats.reply(stream_of("It is brewed", " in the kitchen [1]."))
    tab = open_tab(chats.url, "#/ask?model=rag/cook")
    for question in (QUESTION, "And where is the tea of day 5 served?"):
        ask(tab, question)
        tab.page.get_by_role("article").last.get_by_role("button", name="Passage 1: ").wait_for()
    dialog = add_to_set(tab, "From a chat")
    labels = dialog.get_by_role("checkbox")
    assert [labels.nth(number).is_checked() for number in range(labels.count())] == [False, False, True, False, False]
    labels.nth(1).focus()
    tab.page.keyboard.press("y")
    assert tab.faults() == []
    dialog.get_by_role("button", name="Add").click()
    tab.page.get_by_role("link", name="Added to the set").wait_for()
    dialog = add_to_set(tab, "From a chat")
    dialog.get_by_role("button", name="Add").click()
    dialog.wait_for(state="detached")
    (added,) = questions(chats, path)
    assert (added["text"], added["earlier"]) == ("And where is the tea of day 5 served?", [QUESTION])
    assert [TEA[each["start"] : each["end"]].partition(":")[0][-9:] for each in added["passages"]] == [
        "Section 5",
        "Section 3",
    ]
    tab.page.get_by_role("link", name="Added to the set").click()
    tab.page.get_by_text("And where is the tea of day 5 served?").wait_for()


@pytest.mark.parametrize("conflicts", [2, 3])
def test_a_question_is_added_to_the_version_that_another_client_has_written_meanwhile(
    open_tab: OpenTab, chats: Chats, conflicts: int
) -> None:
    path = created(chats, f"Disputed {conflicts}")
    chats.reply(stream_of("It is brewed", " in the kitchen [1]."))
    tab = open_tab(chats.url, "#/ask?model=rag/cook")
    ask(tab)
    others = [f"Question {number} of another client?" for number in range(conflicts)]
    waiting = list(others)

    def write_first(route: Any) -> None:
        """Let another client write a version before the page does."""
        if route.request.method == "PUT" and waiting:
            response = chats.bases.call("GET", path)
            body = response.json()
            body["questions"].append({"text": waiting.pop(0), "passages": [{"documentName": "oven.txt"}]})
            version = response.headers["X-Resource-URI"].rpartition("=")[2]
            chats.bases.call("PUT", path, params={"version": version}, json=body)
        route.continue_()

    tab.page.route(f"**{path}**", write_first)
    dialog = add_to_set(tab, f"Disputed {conflicts}")
    dialog.get_by_role("button", name="Add").click()
    if conflicts == 2:
        tab.page.get_by_role("link", name="Added to the set").wait_for()
        assert [each["text"] for each in questions(chats, path)] == [*others, QUESTION]
    else:
        # The page repeats a write twice, and then leaves it to the reader.
        dialog.get_by_role("alert").wait_for()
        assert [each["text"] for each in questions(chats, path)] == others
        dialog.get_by_role("button", name="Add").click()
        tab.page.get_by_role("link", name="Added to the set").wait_for()
        assert [each["text"] for each in questions(chats, path)] == [*others, QUESTION]
    assert not waiting


def test_a_question_to_a_base_begins_a_set(open_tab: OpenTab, chats: Chats) -> None:
    tab = open_tab(chats.url, f"#/ask?base={chats.base}")
    ask(tab)
    tab.page.get_by_role("button", name="Open passage 1").first.wait_for()
    dialog = add_to_set(tab, "New set for Kitchen")
    dialog.get_by_role("button", name="Add").click()
    dialog.get_by_role("alert").wait_for()
    dialog.get_by_label("Name").fill("Begun in Ask")
    dialog.get_by_role("checkbox").first.check()
    dialog.get_by_role("button", name="Add").click()
    tab.page.get_by_role("link", name="Added to the set").click()
    tab.page.get_by_role("heading", name="Begun in Ask").wait_for()
    tab.see("1 expected")
