"""Files that are dropped on a base: progress, failures with reasons, retries, cancellation; no failure by time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Final

from tests.page.bases import Bases
from tests.page.conftest import OpenTab
from tests.page.tab import Tab
from tests.support.held_provider import HeldProvider
from tests.support.keyed_services import eventually

MANY: Final = 2000
DROP: Final = """([count, text]) => {
  const transfer = new DataTransfer();
  for (let number = 0; number < count; number += 1) {
    transfer.items.add(new File([`${text} ${number}`], `dropped ${number}.txt`, { type: "text/plain" }));
  }
  const target = document.querySelector("section[aria-label='Add documents']");
  target.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""


def documents(open_tab: OpenTab, bases: Bases, base: str) -> Tab:
    """A tab with the documents of a base."""
    tab = open_tab(bases.url, f"#/bases/{base}")
    tab.page.get_by_role("button", name="Choose files").wait_for()
    return tab


def choose(tab: Tab, *files: tuple[str, bytes]) -> None:
    """Choose files, as the browser's dialog does."""
    given = [{"name": name, "mimeType": "text/plain", "buffer": content} for name, content in files]
    tab.page.get_by_label("Choose files", exact=True).and_(tab.page.locator("input")).set_input_files(given)


def state(tab: Tab, title: str, count: int) -> Any:
    """The button that lists the documents in a state, with their number."""
    return tab.page.get_by_role("button", name=f"{title} {count:,}", exact=True)


def test_two_thousand_dropped_files_are_ingested_with_one_progress(open_tab: OpenTab, bases: Bases) -> None:
    base = bases.create("Two thousand", retrieval="vector")
    tab = documents(open_tab, bases, base)
    before = len(tab.requests)
    tab.page.evaluate(DROP, [MANY, "A short text about tea"])
    tab.page.get_by_role("progressbar").wait_for()
    state(tab, "All", MANY).wait_for(timeout=60_000)
    state(tab, "Complete", MANY).wait_for(timeout=120_000)

    assert tab.page.get_by_role("grid").get_attribute("aria-rowcount") == str(MANY + 1)
    assert tab.page.get_by_role("row").count() <= 60
    sent = [each for each in tab.requests[before:] if each.endswith("/ingest/batch")]
    assert len(sent) <= MANY / 64 + 1
    tab.page.get_by_role("progressbar").wait_for(state="detached")
    tab.see("All ingestions have ended")


def test_ingestions_have_ended_only_after_the_list_says_so(open_tab: OpenTab, bases: Bases) -> None:
    base = bases.create("Read late")
    tab = documents(open_tab, bases, base)
    tab.see("The base has no documents")
    held: list[Any] = []
    released = threading.Event()

    def hold(route: Any) -> None:
        if released.is_set():
            route.continue_()
        else:
            held.append(route)

    tab.page.route("**/documents?**", hold)
    with tab.page.expect_response("**/ingest?**"):
        choose(tab, ("tea.txt", b"Tea is brewed."))
    eventually(lambda: tab.page.wait_for_timeout(50) or held)

    assert tab.page.get_by_role("progressbar").get_attribute("value") == "0"
    assert "All ingestions have ended" not in tab.text()
    released.set()
    for each in held:
        each.continue_()
    state(tab, "Complete", 1).wait_for()
    tab.see("All ingestions have ended")


def test_the_files_of_a_folder_keep_their_paths(open_tab: OpenTab, bases: Bases, tmp_path: Path) -> None:
    folder = tmp_path / "manuals"
    (folder / "deep").mkdir(parents=True)
    (folder / "tea.txt").write_text("tea")
    (folder / "deep" / "pot.txt").write_text("pots")
    (folder / ".hidden").write_text("hidden")
    base = bases.create("From a folder")
    tab = documents(open_tab, bases, base)
    tab.page.locator("input[webkitdirectory]").set_input_files(folder)
    state(tab, "Complete", 2).wait_for()
    listed = bases.call("GET", f"/ragstore/rags/{base}/documents").json()["documents"]

    assert [each["name"] for each in listed] == ["manuals/deep/pot.txt", "manuals/tea.txt"]
    tab.see("1 hidden file left out")


def test_a_file_that_is_not_accepted_stays_with_its_reason_until_it_is_retried_or_dismissed(
    open_tab: OpenTab, bases: Bases
) -> None:
    tab = documents(open_tab, bases, bases.create("Rejected files"))
    choose(tab, ("good.txt", b"tea"), ("empty.txt", b""))
    alert = tab.page.get_by_role("alert")
    alert.get_by_text("empty.txt").wait_for()
    assert "Document content is required" in alert.inner_text()
    state(tab, "Complete", 1).wait_for()
    tab.page.get_by_role("button", name="Retry all").click()
    alert.get_by_text("empty.txt").wait_for()
    tab.page.get_by_role("button", name="Dismiss").click()
    alert.wait_for(state="detached")


def test_a_name_with_a_quotation_mark_is_kept(open_tab: OpenTab, bases: Bases) -> None:
    base = bases.create("Quoted names")
    tab = documents(open_tab, bases, base)
    choose(tab, ('a "quoted" name.txt', b"tea"), ("other.txt", b"pots"))
    state(tab, "Complete", 2).wait_for()
    listed = bases.call("GET", f"/ragstore/rags/{base}/documents").json()["documents"]

    assert [each["name"] for each in listed] == ['a "quoted" name.txt', "other.txt"]


def test_a_document_whose_ingestion_fails_stays_with_its_reason_and_is_retried(open_tab: OpenTab, bases: Bases) -> None:
    tab = documents(open_tab, bases, bases.create("Failed ingestion"))
    choose(tab, ("damaged.pdf", b"%PDF-1.7 nothing"))
    state(tab, "Failed", 1).wait_for()
    row = tab.page.get_by_role("row").filter(has_text="damaged.pdf")
    assert "✗ Failed: " in row.inner_text()
    tab.page.get_by_role("button", name="Retry failed documents").click()
    tab.see("1 file sent again")


def test_files_wait_while_the_queue_is_full(open_tab: OpenTab, bases: Bases) -> None:
    tab = documents(open_tab, bases, bases.create("Full queue"))
    problem = '{"title": "Queue full", "detail": "10000 ingestions have not ended yet", "code": "queue_full"}'
    refused: list[str] = []

    def handle(route: Any) -> None:
        if refused:
            route.continue_()
            return
        refused.append(route.request.url)
        headers = {"Retry-After": "1"}
        route.fulfill(status=503, headers=headers, content_type="application/problem+json", body=problem)

    tab.page.route("**/ingest*", handle)
    choose(tab, ("waiting.txt", b"tea"))
    tab.page.get_by_role("alert").get_by_text("Queue full").wait_for()
    state(tab, "Complete", 1).wait_for()


def test_all_that_is_not_ingested_is_cancelled(open_tab: OpenTab, bases: Bases, provider: HeldProvider) -> None:
    base = bases.create("Cancelled", **provider.base())
    tab = documents(open_tab, bases, base)
    tab.page.evaluate(DROP, [70, "Held tea"])
    state(tab, "All", 70).wait_for()
    tab.page.get_by_role("button", name="Cancel all").click()
    dialog = tab.page.get_by_role("dialog")
    assert "70 documents are not ingested" in dialog.inner_text()
    dialog.get_by_role("button", name="Cancel all").click()
    state(tab, "Failed", 70).wait_for()

    assert bases.states(base) == {"pending": 0, "processing": 0, "completed": 0, "failed": 70}


def test_one_ingestion_is_cancelled_in_its_document(open_tab: OpenTab, bases: Bases, provider: HeldProvider) -> None:
    base = bases.create("One cancelled", **provider.base())
    bases.send(base, "held.txt", "held tea")
    tab = open_tab(bases.url, f"#/bases/{base}/documents/held.txt")
    tab.see("The document has no text until its first ingestion is complete.")
    tab.page.get_by_role("button", name="Cancel ingestion").click()
    tab.see("The ingestion was cancelled")


def test_a_job_of_five_minutes_is_never_shown_as_failed(
    open_tab: OpenTab, bases: Bases, provider: HeldProvider
) -> None:
    base = bases.create("Slow", **provider.base())
    tab = open_tab(bases.url, "#/health")
    tab.page.clock.install()
    tab.show(f"#/bases/{base}")
    tab.page.get_by_role("button", name="Choose files").wait_for()
    choose(tab, ("slow.txt", b"slow tea"))
    tab.page.get_by_role("row").filter(has_text="slow.txt").wait_for()
    for _ in range(20):
        tab.page.clock.run_for(16_000)
        tab.page.wait_for_timeout(50)
        assert state(tab, "Failed", 0).count() == 1
        assert tab.page.get_by_role("alert").count() == 0
    assert "% embedded" in tab.page.get_by_role("row").filter(has_text="slow.txt").inner_text()
    provider.released.set()
    bases.complete(base)
    tab.page.clock.run_for(2_500)
    state(tab, "Complete", 1).wait_for()


def test_the_list_is_read_again_only_while_something_is_not_ingested(
    open_tab: OpenTab, bases: Bases, provider: HeldProvider
) -> None:
    base = bases.create("Polled", **provider.base())
    bases.send(base, "held.txt", "held tea")
    tab = open_tab(bases.url, "#/health")
    tab.page.clock.install()
    tab.show(f"#/bases/{base}")
    tab.page.get_by_role("row").filter(has_text="held.txt").wait_for()

    def reads(milliseconds: int) -> int:
        """The number of reads of the list within a time of the page."""
        before = len(tab.requests)
        for _ in range(milliseconds // 1000):
            tab.page.clock.run_for(1000)
            tab.page.wait_for_timeout(60)
        return len([each for each in tab.requests[before:] if "/documents?" in each])

    assert 3 <= reads(8000) <= 5
    tab.page.evaluate("Object.defineProperty(document, 'hidden', { value: true, configurable: true })")
    assert reads(6000) == 0
    tab.page.evaluate("Object.defineProperty(document, 'hidden', { value: false, configurable: true })")
    provider.released.set()
    bases.complete(base)
    eventually(lambda: reads(3000) and state(tab, "Complete", 1).count())
    assert reads(6000) == 0
