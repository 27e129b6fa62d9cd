"""Copies of bases with sources: a run of the copy continues where the last run of the original ended."""

from __future__ import annotations

import httpx
import pytest

from tests.support.changing_site import ChangingSite
from tests.support.ingestion import EmbeddingServer
from tests.support.sources import SourceBase, counts, put_pages, source_of

pytestmark = pytest.mark.process


async def copied(base: SourceBase, documents: int) -> SourceBase:
    """A copy of a base with its documents, when all of them are complete."""
    response = await base.client.post(base.path, params={"documents": True})
    assert response.status_code == 201, response.text
    copy = SourceBase(base.client, response.headers["Location"].rpartition("/")[2].partition("?")[0])
    while len(await copy.names()) < documents:
        pass
    return copy


async def test_a_run_of_a_copy_embeds_nothing_that_is_unchanged(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "tea", "pots")
    base = await SourceBase.follow(client, server, source_of(site))
    await base.completed_run()
    copy = await copied(base, 3)
    before = server.texts.total()
    found = await copy.completed_run()
    assert (counts(found), server.texts.total() - before) == ({"unchanged": 3}, 0)
    assert (await copy.purge()).status_code == 204
    assert (await copy.names(), len(await base.names())) == (set(), 3)


async def test_a_run_of_a_copy_leaves_the_documents_of_a_person(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, "tea")
    base = await SourceBase.follow(client, server, source_of(site))
    await base.completed_run()
    await base.completed(f"{site.origin}/tea", "A person wrote this")
    copy = await copied(base, 2)
    await copy.completed_run()
    assert await copy.found("A person wrote this")


async def test_documents_of_uploaded_files_stay_in_a_copy_that_has_no_files(
    client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    settings = {"tombstoneAfterMissedRuns": 1}
    base = await SourceBase.follow(client, server, {"name": "files", "type": "upload", "settings": settings})
    await base.upload(("notes.txt", b"Notes about tea"))
    await base.completed_run("files")
    copy = await copied(base, 1)
    await copy.run("files")
    assert len(await copy.names()) == 1
