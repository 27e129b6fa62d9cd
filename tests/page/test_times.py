"""Times of the page, measured and printed with `make page-test PAGE="-s -k times"`. They depend on the machine."""

from __future__ import annotations

import statistics
import time
from typing import Any, Final

import pytest

from tests.page.conftest import OpenTab
from tests.page.data import DOCUMENTS, LARGE
from tests.page.maps import arranged, draw_around
from tests.page.tab import Tab
from tests.support.servers import Served

ROUNDS: Final = 5

OBSERVE: Final = """
window.shift = 0; window.blocking = 0;
new PerformanceObserver((list) => { for (const entry of list.getEntries()) shift += entry.value; })
  .observe({type: "layout-shift", buffered: true});
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) blocking += Math.max(entry.duration - 50, 0);
}).observe({type: "longtask", buffered: true});
"""

SLOW: Final = {"offline": False, "latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 200_000}
"""1.6 Mbit/s."""

SHIFT: Final = 0.02


@pytest.mark.parametrize("is_slow", [False, True], ids=["as it is", "slow"])
def test_the_layout_does_not_shift_and_times_are_printed(open_tab: OpenTab, store: Served, is_slow: bool) -> None:
    found: list[dict[str, Any]] = []
    for _ in range(ROUNDS):
        tab = open_tab(store.url)
        tab.page.goto("about:blank")
        tab.page.add_init_script(OBSERVE)
        if is_slow:
            session = tab.page.context.new_cdp_session(tab.page)
            session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
            session.send("Network.enable")
            session.send("Network.setCacheDisabled", {"cacheDisabled": True})
            session.send("Network.emulateNetworkConditions", SLOW)
        tab.page.goto(f"{store.url}/ui/#/collections/{LARGE}")
        tab.see("handbook:00003")
        listed = tab.page.evaluate("performance.now()")
        tab.page.wait_for_timeout(300)
        found.append(
            {
                "paint": tab.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"),
                "list": listed,
                "blocking": tab.page.evaluate("blocking"),
                "shift": tab.page.evaluate("shift"),
            }
        )
    medians = {name: statistics.median(each[name] for each in found) for name in found[0]}
    print({name: round(value, 3) for name, value in medians.items()})  # noqa: T201

    assert medians["shift"] <= SHIFT


FRAMES: Final = """
() => {
  window.frames = [];
  let last = performance.now();
  const note = () => {
    const now = performance.now();
    frames.push(now - last);
    last = now;
    requestAnimationFrame(note);
  };
  requestAnimationFrame(note);
}
"""


def quantiles(tab: Tab) -> dict[str, float]:
    """The frames that were drawn since the last call."""
    frames = sorted(tab.page.evaluate("frames.splice(0)"))
    found = {"p50": frames[len(frames) // 2], "p95": frames[len(frames) * 95 // 100], "longest": frames[-1]}
    return {"frames": len(frames), **{name: round(value, 1) for name, value in found.items()}}


def test_frames_of_a_map_of_many_documents_are_printed(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, f"#/collections/{LARGE}/map?points={DOCUMENTS}&color=section")
    tab.page.locator("canvas").wait_for(timeout=60_000)
    began = time.monotonic()
    tab.page.evaluate(FRAMES)
    arranged(tab)
    print("refined", {"seconds": round(time.monotonic() - began, 1)}, quantiles(tab))  # noqa: T201
    box = tab.page.locator("canvas").bounding_box()
    corners = [(box["x"] + 20 + 8 * step % 400, box["y"] + 20 + 37 * step % 200) for step in range(60)]
    draw_around(tab, corners)
    print("a line is drawn", quantiles(tab))  # noqa: T201

    tab.see("documents of the map")


def test_frames_of_a_scrolled_list_are_printed(open_tab: OpenTab, store: Served) -> None:
    tab = open_tab(store.url, f"#/collections/{LARGE}")
    tab.see("handbook:00003")
    frames = tab.page.evaluate(
        """async () => {
          const grid = document.getElementById("documents");
          const times = [];
          let last = performance.now();
          for (let step = 0; step < 120; step += 1) {
            grid.scrollTop += 260;
            await new Promise(requestAnimationFrame);
            const now = performance.now();
            times.push(now - last);
            last = now;
          }
          return times.sort((a, b) => a - b);
        }"""
    )
    print({"p50": round(frames[60], 1), "p95": round(frames[114], 1)})  # noqa: T201

    assert tab.page.get_by_role("row").count() > 1
