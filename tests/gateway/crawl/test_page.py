"""The page about crawls names every reason that a crawl reports."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "gateway/ragstore_gateway/sources"
PAGE = (ROOT / "docs/knowledge-base-sources.md").read_text()

REASON = re.compile(r"(?:Stopped|_cut|_skipped\(visit,|reason=|problem=|failed = )\(?\s*\"([a-z_]+)\"")


def test_each_reason_has_a_row() -> None:
    modules = ("crawl", "reading", "requests", "sitemap_reader")
    reasons = {reason for name in modules for reason in REASON.findall((SOURCES / f"{name}.py").read_text())}
    assert {"max_pages", "start_page_gone", "sitemap_failed", "noindex", "canonical", "redirect"} <= reasons
    rows = "".join(line for line in PAGE.splitlines() if line.startswith("| `"))
    assert {reason for reason in reasons if f"`{reason}`" not in rows} == set()
