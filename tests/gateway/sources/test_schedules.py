"""Schedules of sources: they follow the configuration, and run once, whatever is restarted or killed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.sources.conftest import ENVIRON
from tests.support.changing_site import ChangingSite
from tests.support.gateways import start_gateway
from tests.support.ingestion import EmbeddingServer, State, until
from tests.support.processes import kill
from tests.support.servers import Served, running, start_service
from tests.support.sources import SourceBase, put_pages, runs_of, schedule_of, source_of

pytestmark = pytest.mark.process

YEARLY = "0 3 1 1 *"
PAST = "2026-11-01 00:00:00.000000"
"""Days ago, so that a daily source has missed several times."""


def make_due(state: State, base: SourceBase) -> None:
    """Let a schedule have been due for days."""
    zone = "+00:00" if state.engine.dialect.name == "postgresql" else ""
    state.write(f"UPDATE source_schedule SET next_on = '{PAST}{zone}' WHERE base_id = :id", id=base.id)


def is_in_future(state: State, base: SourceBase) -> bool:
    """Whether the schedule of a base has a next time that is not past."""
    return bool(schedule_of(state, base.id).next_on.replace(tzinfo=UTC) > datetime.now(UTC))


async def test_a_schedule_follows_the_configuration(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    base = await SourceBase.follow(client, server, source_of(site, cron=YEARLY))
    created = schedule_of(state, base.id)
    assert (created.source, created.cron) == ("docs", YEARLY)
    assert created.next_on.replace(tzinfo=UTC) == datetime(datetime.now(UTC).year + 1, 1, 1, 3, tzinfo=UTC)
    version = 1

    async def configure(**fields: Any) -> Any:
        nonlocal version
        assert (await base.configure(source_of(site, **fields), version=version)).status_code == 200
        version += 1
        return schedule_of(state, base.id)

    assert await configure(cron=YEARLY, settings={"timeBudgetMinutes": 5}) == created
    daily = await configure(cron="0 3 * * *")
    assert daily.next_on.replace(tzinfo=UTC) - datetime.now(UTC) <= timedelta(days=1)
    assert await configure(cron="0 3 * * *", enabled=False) is None
    assert await configure(cron=YEARLY) == created
    assert await configure() is None


async def test_times_that_were_missed_are_run_once(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site, cron="0 3 * * *"))
    make_due(state, base)
    await until(lambda: bool(runs_of(state, base.id)))
    found = await base.run_ended(runs_of(state, base.id)[0].id)
    assert (found["status"], found["trigger"], found["added"]) == ("completed", "schedule", 2)
    assert is_in_future(state, base)
    assert len(runs_of(state, base.id)) == 1


async def test_a_time_at_which_a_run_has_not_ended_is_skipped(
    site: ChangingSite, client: httpx.AsyncClient, server: EmbeddingServer, state: State
) -> None:
    put_pages(site, "page")
    base = await SourceBase.follow(client, server, source_of(site, cron=YEARLY))
    server.held = "The page page"
    try:
        run_id = await base.begin()
        make_due(state, base)
        await until(lambda: is_in_future(state, base))
    finally:
        server.held = "\0"
    assert (await base.run_ended(run_id))["status"] == "completed"
    assert [each.id for each in runs_of(state, base.id)] == [run_id]


@pytest.mark.process
async def test_a_schedule_survives_a_restart_and_the_run_that_was_stopped_is_interrupted(
    site: ChangingSite, server: EmbeddingServer, tmp_path: Path
) -> None:
    put_pages(site, "page")
    environ = {**ENVIRON, "RAGSTORE_GATEWAY_ALLOW_HOSTS": f"127.0.0.1:{site.port}"}
    server.held = "The page page"
    with running(start_gateway(tmp_path, environ)) as served:
        async with httpx.AsyncClient(base_url=served.url, timeout=30) as client:
            base = await SourceBase.follow(client, server, source_of(site, cron=YEARLY))
            await base.begin()
            await until(lambda: server.waiting > 0)
    server.held = "\0"
    state = State.of(tmp_path)
    assert [(each.state, each.reason) for each in runs_of(state, base.id)] == [("interrupted", "gateway_stopped")]
    make_due(state, base)
    with running(start_gateway(tmp_path, environ)) as served:
        await until(lambda: [each.state for each in runs_of(state, base.id)] == ["interrupted", "completed"])
        assert runs_of(state, base.id)[1].trigger == "schedule"
        assert is_in_future(state, base)
    state.close()


@contextmanager
def replicas(folder: Path, postgres_url: str, store: Served, site: ChangingSite) -> Iterator[tuple[Served, Served]]:
    """Two gateways over one database and one store."""
    environ = {
        **ENVIRON,
        "RAGSTORE_URL": store.url,
        "RAGSTORE_GATEWAY_DATABASE_URL": postgres_url,
        "RAGSTORE_GATEWAY_ALLOW_HOSTS": f"127.0.0.1:{site.port}",
    }
    for name in ("a", "b"):
        (folder / name).mkdir()
    with running(start_gateway(folder / "a", environ)) as first, running(start_gateway(folder / "b", environ)) as other:
        yield first, other


@pytest.mark.process
async def test_replicas_run_a_source_once_and_again_if_the_one_that_runs_it_is_killed(
    site: ChangingSite, server: EmbeddingServer, tmp_path: Path, postgres_url: str
) -> None:
    put_pages(site, "page")
    state = State.of(tmp_path, postgres_url)
    with (
        running(start_service(tmp_path, {"RAGSTORE_RESERVED_PREFIXES": "none"})) as store,
        replicas(tmp_path, postgres_url, store, site) as both,
    ):
        clients = [httpx.AsyncClient(base_url=each.url, timeout=30) for each in both]
        base = await SourceBase.follow(clients[0], server, source_of(site, cron=YEARLY))
        for turn in range(5):
            # No run ends before all requests have a response.
            server.held = f"The text of turn {turn}"
            site.article("/page", "Page", f"{server.held} is long enough to be extracted as the text of the page.")
            requests = [clients[number % 2].post(base.at("run")) for number in range(6)]
            responses = await asyncio.gather(*requests)
            assert sorted(each.status_code for each in responses) == [202, *[409] * 5]
            won = next(each for each in responses if each.status_code == 202).json()["runId"]
            assert {each.headers["Location"] for each in responses} == {base.at(f"runs/{won}")}
            server.held = "\0"
            ended = await base.run_ended(won)
            assert ended["status"] == "completed", ended

        # A schedule that is due, for replicas that look for it every two seconds.
        before = len(runs_of(state, base.id))
        site.article("/page", "Page", "The killed text of the page is long enough to be extracted as its text.")
        server.held = "The killed text"
        make_due(state, base)
        await until(lambda: server.waiting > 0)
        first_run = runs_of(state, base.id)[-1]
        assert (len(runs_of(state, base.id)), first_run.trigger) == (before + 1, "schedule")
        assert is_in_future(state, base)
        number = 0 if f"-{both[0].process.pid}-" in first_run.owner else 1
        kill(both[number])
        server.held = "\0"
        await until(lambda: [each.state for each in runs_of(state, base.id)][before:] == ["interrupted", "completed"])
        again = runs_of(state, base.id)[-1]
        assert (again.trigger, again.owner != first_run.owner) == ("schedule", True)
        assert is_in_future(state, base)
        assert await SourceBase(clients[1 - number], base.id).found("The killed text")
        for each in clients:
            await each.aclose()
    state.close()
