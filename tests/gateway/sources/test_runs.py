"""Runs of a web source: which pages are ingested, skipped and removed."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.gateway.sources.conftest import MAX_WAITING
from tests.support.changing_site import ChangingSite
from tests.support.ingestion import EmbeddingServer, State, until
from tests.support.sources import LONG, SourceBase, counts, documents_of, put_pages, source_of

pytestmark = pytest.mark.process


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


async def test_of_a_changed_site_only_the_new_and_the_changed_pages_are_embedded(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "kept", "edited")
    base = await SourceBase.follow(client, server, source_of(site, web_fields={"sitemaps": [f"{site.origin}/s.xml"]}))
    site.sitemap("/s.xml", [f"{site.origin}/fresh"])
    await base.run()
    site.article("/edited", "Edited", f"Today this page is other than yesterday. {LONG * 3}")
    site.article("/fresh", "Fresh", f"This page is quite fresh. {LONG * 3}")
    before = server.texts.total()
    found = await base.completed_run()
    assert counts(found) == {"added": 1, "changed": 1, "unchanged": 2}
    assert server.texts.total() - before == found["chunks"]
    assert await base.found("Today this page is other")
    assert not await base.found("The page edited is here")


async def test_a_page_is_recorded_when_its_vectors_are_stored(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    put_pages(site, "slow")
    base = await SourceBase.follow(client, server, source_of(site))
    server.held = "The page slow"
    try:
        run_id = await base.begin()
        await until(lambda: server.waiting > 0 and len(documents_of(state, base.id)) == 2)
        held = next(each for each in documents_of(state, base.id) if each.location.endswith("/slow"))
        assert (held.content_hash, held.etag) == ("", "")
    finally:
        server.held = "\0"
    assert (await base.run_ended(run_id))["status"] == "completed"
    assert all(len(each.content_hash) == 64 and each.etag for each in documents_of(state, base.id))


async def test_a_page_whose_ingestion_fails_is_ingested_by_the_next_run(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "bad", "good")
    base = await SourceBase.follow(client, server, source_of(site))
    server.rejected = "The page bad"
    try:
        assert counts(await base.completed_run()) == {"added": 2, "failed": 1}
    finally:
        server.rejected = "\0"
    assert counts(await base.completed_run()) == {"added": 1, "unchanged": 2}
    assert await base.found("The page bad is here")


async def test_a_failed_change_keeps_the_page_as_it_was_and_is_repeated(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site))
    await base.completed_run()
    site.article("/page", "Page", f"The second text of the page. {LONG * 3}")
    server.rejected = "The second text"
    try:
        assert counts(await base.completed_run()) == {"unchanged": 1, "failed": 1}
        assert await base.found("The page page is here")
    finally:
        server.rejected = "\0"
    assert counts(await base.completed_run()) == {"changed": 1, "unchanged": 1}
    assert not await base.found("The page page is here")


async def test_a_page_loses_its_vectors_when_two_complete_runs_in_a_row_miss_it(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "stays", "goes")
    base = await SourceBase.follow(client, server, source_of(site))
    await base.completed_run()
    site.remove("/goes")
    put_pages(site, "stays")
    assert counts(await base.completed_run()) == {"unchanged": 2, "missing": 1}
    assert await base.found("The page goes is here")
    assert counts(await base.completed_run()) == {"unchanged": 2, "removed": 1}
    assert not await base.found("The page goes is here")
    assert await base.names() == {site.origin, f"{site.origin}/stays"}
    assert counts(await base.completed_run()) == {"unchanged": 2}


async def test_a_page_that_reappears_is_not_missing_any_more(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site))
    await base.completed_run()
    page = site.pages["/page"]
    for _ in range(2):
        site.remove("/page")
        assert counts(await base.completed_run()) == {"unchanged": 1, "missing": 1}
        site.pages["/page"] = page
        assert counts(await base.completed_run()) == {"unchanged": 2}
    assert [each.missed_runs for each in documents_of(state, base.id)] == [0, 0]


async def test_a_removed_page_that_comes_back_unchanged_is_embedded_again(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site, settings={"tombstoneAfterMissedRuns": 1}))
    await base.completed_run()
    page = site.pages["/page"]
    site.remove("/page")
    assert counts(await base.completed_run()) == {"unchanged": 1, "removed": 1}
    site.pages["/page"] = page
    assert counts(await base.completed_run()) == {"added": 1, "unchanged": 1}
    assert await base.found("The page page is here")


async def test_a_run_that_was_cut_short_or_read_nothing_counts_no_page_as_missing(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    put_pages(site, "a", "b")
    base = await SourceBase.follow(client, server, source_of(site, settings={"tombstoneAfterMissedRuns": 1}))
    await base.completed_run()
    site.failure = "500 Internal Server Error"
    failed = await base.run()
    assert failed["status"] == "failed"
    assert failed["reason"]
    site.failure = ""
    site.is_down = True
    assert (await base.run())["status"] == "failed"
    site.is_down = False
    limited = source_of(site, web_fields={"maxPages": 1}, settings={"tombstoneAfterMissedRuns": 1})
    assert (await base.configure(limited)).status_code == 200
    cut = await base.run()
    assert (cut["status"], cut["reason"]) == ("incomplete", "max_pages")
    assert [each.missed_runs for each in documents_of(state, base.id)] == [0, 0, 0]
    assert len(await base.names()) == 3


async def test_a_page_that_cannot_be_read_is_not_missing(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "flaky")
    base = await SourceBase.follow(client, server, source_of(site, settings={"tombstoneAfterMissedRuns": 1}))
    await base.completed_run()
    site.put("/flaky", "overloaded", "text/plain", status="503 Service Unavailable", etag=False)
    assert counts(await base.completed_run()) == {"unchanged": 1, "failed": 1}
    assert await base.found("The page flaky is here")


async def test_a_run_ends_when_its_chunks_reach_the_maximum(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, *(f"page-{number}" for number in range(8)))
    base = await SourceBase.follow(client, server, source_of(site, settings={"maxSegmentsPerRun": 3}))
    before = server.texts.total()
    found = await base.run()
    assert (found["status"], found["reason"]) == ("incomplete", "max_segments")
    last = max(each["chunks"] for each in await base.documents())
    assert 3 <= server.texts.total() - before == found["chunks"] < 3 + last
    again = await base.run()
    assert again["added"] > 0
    assert again["unchanged"] == found["added"]


async def test_one_source_has_one_run_at_a_time(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "held")
    base = await SourceBase.follow(client, server, source_of(site), source_of(site, "other"))
    server.held = "The page held"
    try:
        run_id = await base.begin()
        response = await client.post(base.at("run"))
        assert response.status_code == 409
        assert response.json()["code"] == "source_running"
        assert run_id in response.json()["detail"]
        assert response.headers["Location"] == base.at(f"runs/{run_id}")
        assert (await base.purge()).status_code == 409
        assert (await client.post(base.at("run", "other"))).status_code == 202
    finally:
        server.held = "\0"
    assert (await base.run_ended(run_id))["status"] == "completed"


async def test_a_cancelled_run_ends_and_counts_no_page_as_missing(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    put_pages(site, "old")
    base = await SourceBase.follow(client, server, source_of(site, settings={"tombstoneAfterMissedRuns": 1}))
    finished = (await base.completed_run())["runId"]
    site.remove("/old")
    put_pages(site, "new")
    server.held = "The page new"
    try:
        run_id = await base.begin()
        await until(lambda: server.waiting > 0)
        assert (await client.delete(base.at(f"runs/{run_id}"))).status_code == 204
        found = await base.read_run(run_id)
        assert (found["status"], found["reason"], "finishedOn" in found) == ("cancelled", "requested", True)
        assert (await client.delete(base.at(f"runs/{run_id}"))).status_code == 204
    finally:
        server.held = "\0"
    ended = await client.delete(base.at(f"runs/{finished}"))
    assert (ended.status_code, ended.json()["code"]) == (409, "source_run_ended")
    assert await base.found("The page old is here")
    assert [each.missed_runs for each in documents_of(state, base.id)] == [0, 0, 0]
    # Its last ingestion may have completed meanwhile.
    again = await base.completed_run()
    assert again["removed"] == 1
    assert await base.found("The page new is here")
    assert not await base.found("The page old is here")


async def test_a_run_that_ended_elsewhere_writes_no_further_document(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State, sourcing_folder: Path
) -> None:
    names = [f"page-{number}" for number in range(12)]
    put_pages(site, *names)
    base = await SourceBase.follow(client, server, source_of(site))
    server.held = "T"
    try:
        run_id = await base.begin()
        await until(lambda: len(documents_of(state, base.id)) == MAX_WAITING)
        state.write("UPDATE source_run SET state = 'interrupted' WHERE id = :id", id=run_id)
    finally:
        server.held = "\0"
    log = sourcing_folder / "gateway.log"
    await until(lambda: any("source run ended" in line and run_id in line for line in log.read_text().splitlines()))
    assert [each.content_hash for each in documents_of(state, base.id)] == [""] * MAX_WAITING
    assert (await base.read_run(run_id))["status"] == "interrupted"
    await base.completed_run()
    assert len(await base.names()) == 13


async def test_a_run_waits_while_too_many_ingestions_have_not_ended(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    put_pages(site, *(f"page-{number}" for number in range(MAX_WAITING + 3)))
    base = await SourceBase.follow(client, server, source_of(site))
    server.held = "T"
    try:
        run_id = await base.begin()
        await until(lambda: len(documents_of(state, base.id)) == MAX_WAITING)
        assert (await base.post("mine.txt", "A document of a person")).status_code == 503
    finally:
        server.held = "\0"
    found = await base.run_ended(run_id)
    assert (found["status"], counts(found)) == ("completed", {"added": MAX_WAITING + 4})


async def test_a_run_that_could_store_nothing_has_failed(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site))
    server.rejected = "T"
    try:
        found = await base.run()
    finally:
        server.rejected = "\0"
    assert (found["status"], found["reason"], counts(found)) == ("failed", "nothing_read", {"failed": 2})
