"""A scripted week of a website: the history of its runs is the table of the documentation."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tests.support.changing_site import WEEK, ChangingSite
from tests.support.ingestion import EmbeddingServer
from tests.support.pages import ROOT
from tests.support.sources import SourceBase, source_of

pytestmark = pytest.mark.process

COUNTS = ("added", "changed", "unchanged", "missing", "removed", "failed", "skipped")
HEAD = f"| day | status | reason | {' | '.join(COUNTS)} | embedded | documents |"


async def test_the_history_of_a_scripted_week_is_the_documented_one(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    base = await SourceBase.follow(client, server, source_of(site, web_fields={"timeoutSeconds": 2}), chunkOverlap=0)
    rows = []
    for day, change in WEEK:
        change(site)
        before = server.texts.total()
        run = await base.run()
        rows.append(_row(day, run, server.texts.total() - before, len(await base.names())))
    # Nothing is embedded again that was stored already.
    assert _documented() == rows, "\n".join(rows)


def _row(day: str, run: dict[str, Any], embedded: int, documents: int) -> str:
    assert run["chunks"] == embedded
    reason = f"`{run['reason']}`" if run["reason"] else ""
    counts = " | ".join(str(run[name] or "") for name in COUNTS)
    return re.sub(r" +", " ", f"| {day} | `{run['status']}` | {reason} | {counts} | {embedded or ''} | {documents} |")


def _documented() -> list[str]:
    page = (ROOT / "docs/knowledge-base-sources.md").read_text()
    table = page.partition(HEAD + "\n")[2].partition("\n\n")[0]
    return table.splitlines()[1:]
