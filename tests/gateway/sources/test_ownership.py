"""The documents of a source, documents of people beside them, and their end with the source."""

from __future__ import annotations

import httpx
import pytest
import sqlalchemy as sa

from ragstore_gateway.sources.tables import SourceRunRow
from tests.support.changing_site import ChangingSite
from tests.support.ingestion import EmbeddingServer, State, collection_names, until
from tests.support.servers import Served
from tests.support.sources import LONG, SourceBase, counts, documents_of, put_pages, runs_of, schedule_of, source_of

pytestmark = pytest.mark.process

ONCE = {"tombstoneAfterMissedRuns": 1}


async def test_a_page_does_not_replace_a_document_that_a_person_ingested_under_its_name(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site, settings=ONCE))
    await base.completed(f"{site.origin}/page", "The words of a person")
    previewed = {each["url"]: (each["outcome"], each["reason"]) for each in (await base.preview())["pages"]}
    assert previewed[f"{site.origin}/page"] == ("skipped", "name_taken")
    assert counts(await base.completed_run()) == {"added": 1, "skipped": 1}
    assert await base.found("The words of a person")
    site.remove("/page")
    assert (await base.completed_run())["removed"] == 0
    assert (await base.purge()).status_code == 204
    assert await base.names() == {f"{site.origin}/page"}


async def test_a_document_that_a_person_replaces_is_not_the_source_s_any_more(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site, settings=ONCE))
    await base.completed_run()
    await base.completed(f"{site.origin}/page", "The correction of a person")
    assert counts(await base.completed_run()) == {"unchanged": 1, "skipped": 1}
    site.remove("/page")
    assert counts(await base.completed_run()) == {"unchanged": 1}
    assert await base.found("The correction of a person")
    assert [each.location for each in documents_of(state, base.id)] == [f"{site.origin}/"]


async def test_a_page_whose_document_a_person_deletes_is_ingested_again(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site))
    await base.completed_run()
    assert (await base.delete(f"{site.origin}/page")).status_code == 204
    assert counts(await base.completed_run()) == {"added": 1, "unchanged": 1}


async def test_a_page_of_two_sources_is_the_document_of_the_first_one(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site), source_of(site, "second"))
    await base.completed_run()
    assert counts(await base.completed_run("second")) == {"skipped": 2}
    assert (await base.purge()).status_code == 204
    assert counts(await base.completed_run("second")) == {"added": 2}


async def test_of_two_pages_whose_urls_differ_by_a_final_slash_the_first_one_is_the_document(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    put_pages(site, "tea", "tea/")
    site.article("/tea/", "Other", f"The other page of tea. {LONG * 3}")
    base = await SourceBase.follow(client, server, source_of(site))
    assert counts(await base.completed_run()) == {"added": 2, "skipped": 1}
    previewed = {each["url"]: (each["outcome"], each["reason"]) for each in (await base.preview())["pages"]}
    assert previewed[f"{site.origin}/tea/"] == ("skipped", "name_taken")
    # The page without the document is compared in each run, and never replaces the other one.
    assert counts(await base.completed_run()) == {"unchanged": 2, "skipped": 1}
    assert await base.found("The page tea is here")
    assert not await base.found("The other page of tea")
    # When only it is left, the document is its.
    put_pages(site, "tea/")
    site.remove("/tea")
    site.article("/tea/", "Other", f"The other page of tea. {LONG * 3}")
    assert counts(await base.completed_run()) == {"unchanged": 1, "changed": 1}
    assert await base.found("The other page of tea")
    assert not await base.found("The page tea is here")
    assert {each.location for each in documents_of(state, base.id)} == {f"{site.origin}/", f"{site.origin}/tea/"}


async def test_a_page_that_moves_to_its_url_with_a_final_slash_is_never_missing(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "tea")
    base = await SourceBase.follow(client, server, source_of(site, settings=ONCE))
    await base.completed_run()
    site.pages["/tea/"] = site.pages["/tea"]
    site.move("/tea", "/tea/")
    before = server.texts.total()
    previewed = {each["url"]: each["outcome"] for each in (await base.preview())["pages"]}
    assert previewed[f"{site.origin}/tea/"] == "changed"
    # The text is the same, so that nothing is embedded.
    assert counts(await base.completed_run()) == {"unchanged": 2, "skipped": 1}
    assert counts(await base.completed_run()) == {"unchanged": 2, "skipped": 1}
    assert server.texts.total() == before
    assert await base.found("The page tea is here")


async def test_a_purge_deletes_the_documents_of_a_source_and_its_memory_of_pages(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site))
    await base.completed("mine.txt", "A document of a person")
    await base.completed_run()
    assert (await base.purge()).status_code == 204
    assert await base.names() == {"mine.txt"}
    assert not await base.found("The page page is here")
    assert documents_of(state, base.id) == []
    site.taken()
    assert counts(await base.completed_run()) == {"added": 2}
    assert sum(not request.header("if-none-match") for request in site.requests) == len(site.requests)
    # The entries of runs stay.
    assert (await base.runs())["total"] == 2


async def test_a_source_that_is_removed_keeps_its_documents_until_they_are_purged(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site, cron="0 3 * * *"))
    server.held = "The page page"
    try:
        run_id = await base.begin()
        await until(lambda: server.waiting > 0)
        assert schedule_of(state, base.id) is not None
        assert (await base.configure()).status_code == 200
        found = await base.read_run(run_id)
        assert (found["status"], found["reason"]) == ("cancelled", "source_removed")
    finally:
        server.held = "\0"
    assert schedule_of(state, base.id) is None
    response = await client.post(base.at("run"))
    assert (response.status_code, response.json()["code"]) == (404, "source_not_found")
    assert (await base.runs())["total"] == 1
    await until(lambda: not state.steps())
    assert f"{site.origin}/page" in await base.names()
    assert (await base.purge()).status_code == 204
    assert await base.names() == set()


async def test_the_permanent_deletion_of_a_base_removes_all_of_its_sources(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State, sourcing: Served
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site, cron="0 3 * * *"))
    await base.completed_run()
    collections = {row.id for row in state.collections(base.id)}
    server.held = "Another text"
    try:
        site.article("/page", "Page", "Another text of the page, which is long enough to be extracted as its text.")
        await base.begin()
        await until(lambda: server.waiting > 0)
        assert (await client.delete(base.path, params={"permanent": True})).status_code == 200
    finally:
        server.held = "\0"
    assert (documents_of(state, base.id), runs_of(state, base.id), schedule_of(state, base.id)) == ([], [], None)
    await until(lambda: collections.isdisjoint(collection_names(sourcing.url)))
    assert (await client.get(base.at("runs"))).status_code == 404


async def test_a_base_that_is_marked_as_deleted_runs_no_source(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site, cron="0 3 * * *"))
    server.held = "The page page"
    try:
        run_id = await base.begin()
        await until(lambda: server.waiting > 0)
        assert (await client.delete(base.path)).status_code == 200
    finally:
        server.held = "\0"
    ended = state.rows(sa.select(SourceRunRow.state, SourceRunRow.reason).where(SourceRunRow.id == run_id))
    assert [tuple(row) for row in ended] == [("cancelled", "base_deleted")]
    assert schedule_of(state, base.id) is None
    assert (await client.post(base.at("run"))).status_code == 404


async def test_the_duplicate_of_a_base_has_no_pages_and_its_sources_run_for_themselves(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site, cron="0 3 * * *"))
    await base.completed_run()
    created = await client.post(base.path)
    copy = SourceBase(client, created.headers["Location"].rpartition("/")[2].partition("?")[0])
    assert (await copy.runs())["total"] == 0
    assert documents_of(state, copy.id) == []
    assert schedule_of(state, copy.id).cron == "0 3 * * *"
    assert counts(await copy.completed_run()) == {"added": 2}
    assert (await copy.purge()).status_code == 204
    assert len(await base.names()) == 2
