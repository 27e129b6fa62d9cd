"""Runs of a web source: what is ingested, what is not, what is removed, and what the history says."""

from __future__ import annotations

import httpx
import pytest

from tests.support.changing_site import ChangingSite
from tests.support.ingestion import EmbeddingServer, State
from tests.support.sources import LONG, SourceBase, counts, source_of


def put_pages(site: ChangingSite, *names: str, more: str = "") -> None:
    """Serve pages, and a start page with links to them."""
    for name in names:
        site.article(f"/{name}", name.title(), f"The page {name} is here. {LONG * 3}{more}")
    site.article("/", "Start", f"The start page has links. {LONG * 3}", [f"/{name}" for name in names])


async def test_a_run_ingests_the_pages_of_a_site_under_their_urls(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "tea", "pots")
    base = await SourceBase.follow(client, server, source_of(site))
    response = await client.post(base.at("run"))
    assert response.status_code == 202, response.text
    run_id = response.json()["runId"]
    assert response.json() == {"runId": run_id, "source": "docs", "status": "running"}
    assert response.headers["Location"] == base.at(f"runs/{run_id}")
    found = await base.run_ended(run_id)
    assert (found["status"], found["trigger"], counts(found)) == ("completed", "manual", {"added": 3})
    assert found["chunks"] == sum(each["chunks"] for each in await base.documents())
    assert await base.names() == {site.origin, f"{site.origin}/tea", f"{site.origin}/pots"}
    assert await base.found("The page tea is here")


async def test_a_run_over_an_unchanged_site_embeds_nothing(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "one", "two")
    base = await SourceBase.follow(client, server, source_of(site))
    await base.completed_run()
    before = server.texts.total()
    found = await base.completed_run()
    assert (counts(found), found["chunks"]) == ({"unchanged": 3}, 0)
    assert server.texts.total() == before
