"""The routes of sources: previews, the history, errors, roles."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from ragstore_gateway.sources.metrics import PAGES, STATES
from tests.support.changing_site import ChangingSite
from tests.support.ingestion import EmbeddingServer, State
from tests.support.metric_samples import samples_of
from tests.support.sources import LONG, NAME, SourceBase, documents_of, put_pages, source_of

pytestmark = pytest.mark.process

UNKNOWN = "00000000-0000-4000-8000-000000000000"


def outcomes(preview: dict[str, Any], site: ChangingSite) -> dict[str, str]:
    """The outcomes of a preview, by path."""
    return {each["url"].removeprefix(site.origin): each["outcome"] for each in preview["pages"]}


async def test_a_preview_lists_what_a_run_would_do_and_does_nothing(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    put_pages(site, "kept", "edited", "gone")
    base = await SourceBase.follow(client, server, source_of(site, enabled=False))
    before = server.texts.total()
    first = await base.preview()
    assert (first["complete"], first["reason"]) == (True, "")
    assert outcomes(first, site) == dict.fromkeys(("/", "/kept", "/edited", "/gone"), "added")
    assert (server.texts.total(), documents_of(state, base.id), await base.names()) == (before, [], set())
    assert (await base.runs())["total"] == 0

    assert (await base.configure(source_of(site))).status_code == 200
    await base.completed_run()
    before = server.texts.total()
    rows = documents_of(state, base.id)
    put_pages(site, "kept", "edited", "fresh")
    site.article("/edited", "Edited", "The second text of this page, which is long enough to be extracted as its text.")
    site.remove("/gone")
    expected = {"/": "unchanged", "/kept": "unchanged", "/edited": "changed", "/fresh": "added", "/gone": "missing"}
    found = outcomes(await base.preview(), site)
    assert found | {"/gone": "missing"} == expected
    assert found["/gone"] in ("gone", "missing")
    assert server.texts.total() == before
    assert documents_of(state, base.id) == rows


async def test_a_fourth_preview_at_a_time_is_rejected(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site, *(f"page-{number}" for number in range(30)))
    base = await SourceBase.follow(client, server, source_of(site, web_fields={"requestDelayMs": 60_000}))
    previews = [asyncio.create_task(client.post(base.at("preview"))) for _ in range(4)]
    done, pending = await asyncio.wait(previews, return_when=asyncio.FIRST_COMPLETED)
    for each in pending:
        each.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    assert [(each.result().status_code, each.result().json()["code"]) for each in done] == [(503, "too_many_previews")]
    assert len(pending) == 3


async def test_the_history_has_the_newest_run_first_in_pages(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site)
    base = await SourceBase.follow(client, server, source_of(site))
    ids = [(await base.run())["runId"] for _ in range(3)]
    history = await base.runs()
    assert ([each["runId"] for each in history["runs"]], history["total"]) == (ids[::-1], 3)
    second = await base.runs(index=1, limit=2)
    assert ([each["runId"] for each in second["runs"]], second["total"]) == (ids[:1], 3)
    assert second["runs"][0] == await base.read_run(ids[0])


async def test_a_disabled_source_cannot_be_run(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    base = await SourceBase.follow(client, server, source_of(site, enabled=False))
    response = await client.post(base.at("run"))
    assert (response.status_code, response.json()["code"]) == (409, "source_disabled")
    assert (await base.runs())["total"] == 0


async def test_an_unknown_base_source_or_run_is_404(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    put_pages(site)
    base = await SourceBase.follow(client, server, source_of(site), source_of(site, "other"))
    run_id = (await base.run("other"))["runId"]
    elsewhere = f"/ragstore/rags/{UNKNOWN}/sources/{NAME}"
    for method, path, code in (
        ("POST", f"{elsewhere}/run", "configuration_not_found"),
        ("POST", f"{elsewhere}/preview", "configuration_not_found"),
        ("GET", f"{elsewhere}/runs", "configuration_not_found"),
        ("DELETE", f"{elsewhere}/documents", "configuration_not_found"),
        ("POST", base.at("run", "none"), "source_not_found"),
        ("POST", base.at("preview", "none"), "source_not_found"),
        ("GET", base.at("runs", "none"), "source_not_found"),
        ("DELETE", base.at("documents", "none"), "source_not_found"),
        ("GET", base.at(f"runs/{UNKNOWN}"), "source_run_not_found"),
        ("GET", base.at(f"runs/{run_id}"), "source_run_not_found"),
        ("GET", base.at("runs/%00"), "source_run_not_found"),
        ("DELETE", base.at(f"runs/{run_id}"), "source_run_not_found"),
    ):
        response = await client.request(method, path)
        assert (response.status_code, response.json()["code"]) == (404, code), (method, path)


async def test_metrics_count_runs_and_their_pages_by_outcome(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer
) -> None:
    async def counted() -> dict[str, float]:
        return samples_of((await client.get("/metrics")).text)

    def growth(before: dict[str, float], after: dict[str, float], name: str) -> dict[str, int]:
        """The growth of each series of a metric that has grown, by outcome."""
        of_metric = {key: key.partition('outcome="')[2].rstrip('"}') for key in after if key.startswith(name + "{")}
        return {outcome: int(more) for key, outcome in of_metric.items() if (more := after[key] - before[key])}

    async def pages_since(before: dict[str, float]) -> dict[str, int]:
        """The growth of the pages: they are counted after the end of their run is committed, and so visible."""
        for _ in range(100):
            grown = growth(before, await counted(), pages)
            if grown:
                return grown
            await asyncio.sleep(0.05)
        return {}

    put_pages(site, "stays", "changes", "goes")
    base = await SourceBase.follow(client, server, source_of(site, settings={"tombstoneAfterMissedRuns": 2}))
    first = await counted()
    runs, pages = "ragstore_gateway_source_runs_total", "ragstore_gateway_source_pages_total"
    assert {f'{runs}{{outcome="{each}"}}' for each in STATES} | {
        f'{pages}{{outcome="{each}"}}' for each in PAGES
    } <= set(first)

    await base.completed_run()
    assert await pages_since(first) == {"added": 4}
    second = await counted()
    assert growth(first, second, runs) == {"completed": 1}

    put_pages(site, "stays", "changes")
    site.remove("/goes")
    site.article("/changes", "Changes", f"The second text of the page. {LONG * 3}", ["/locked"])
    site.put("/locked", "no", "text/plain", status="403 Forbidden", etag=False)
    await base.completed_run()
    assert await pages_since(second) == {"unchanged": 2, "changed": 1, "missing": 1, "failed": 1}
    third = await counted()
    await base.completed_run()
    assert await pages_since(third) == {"unchanged": 3, "removed": 1, "failed": 1}

    site.failure = "500 Internal Server Error"
    before = await counted()
    assert (await base.run())["status"] == "failed"
    assert growth(before, await counted(), runs) == {"failed": 1}
