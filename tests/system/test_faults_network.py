"""A network between the service and Chroma that does what networks do."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.fault_proxy import Fault, proxied
from tests.support.ledger import PATIENCE, ingesting, until, wait_for_writes
from tests.support.problems import problem_of
from tests.support.servers import Served, running, start_service
from tests.system.conftest import Report

FAULTS: Final[tuple[Fault, ...]] = ("delay", "cut", "half-close", "truncate", "garble", "silence")

MET: Final = 12
"""How often a fault strikes before it ends."""


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_network_that_fails_loses_nothing_and_the_service_recovers(
    tmp_path: Path, chroma: Served, name: str, report: Report, fault: Fault
) -> None:
    async with proxied(urlsplit(chroma.url).port or 0) as proxy:
        environ = {
            "RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{proxy.port}",
            "RAGSTORE_CHROMA_DATABASE": name,
            "RAGSTORE_CHROMA_TIMEOUT_SECONDS": "2",
        }
        service = await asyncio.to_thread(start_service, tmp_path, environ)
        with running(service):
            async with ingesting(service) as ledger:
                proxy.fault = fault
                await until(lambda: proxy.met >= (MET if fault != "silence" else 4))
                proxy.fault = "none"
                await ledger.more(12)
            await asyncio.to_thread(wait_for_writes, service.url)
            report(f"network: {fault}", await asyncio.to_thread(ledger.check))


async def test_a_chroma_that_falls_silent_is_504_within_the_budget_and_the_probes_go_on(
    tmp_path: Path, chroma: Served, name: str
) -> None:
    async with proxied(urlsplit(chroma.url).port or 0) as proxy, httpx.AsyncClient(timeout=PATIENCE) as client:
        environ = {
            "RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{proxy.port}",
            "RAGSTORE_CHROMA_DATABASE": name,
            "RAGSTORE_REQUEST_TIMEOUT_SECONDS": "1",
        }
        service = await asyncio.to_thread(start_service, tmp_path, environ)
        with running(service):
            proxy.fault = "silence"
            answer = await client.get(f"{service.url}/collections/abc")
            problem_of(answer, 504)
            assert (await client.get(f"{service.url}/health/live")).status_code == 200
            assert (await client.get(f"{service.url}/health/ready")).status_code == 503
            proxy.fault = "none"
            await asyncio.to_thread(wait_for_writes, service.url)


async def test_while_chroma_is_away_requests_are_refused_without_asking_it_and_a_probe_notices_its_return(
    tmp_path: Path, chroma: Served, name: str
) -> None:
    async with proxied(urlsplit(chroma.url).port or 0) as proxy, httpx.AsyncClient(timeout=PATIENCE) as client:
        environ = {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{proxy.port}", "RAGSTORE_CHROMA_DATABASE": name}
        service = await asyncio.to_thread(start_service, tmp_path, environ)
        with running(service):
            proxy.fault = "cut"
            proxy.every = 1
            told: list[str] = []
            deadline = time.monotonic() + PATIENCE
            while "circuit open" not in "".join(told):
                assert time.monotonic() < deadline
                answer = await client.get(f"{service.url}/collections/abc")
                told.append(problem_of(answer, 503)["detail"])
                assert int(answer.headers["retry-after"]) >= 1
            proxy.fault = "none"
            assert (await client.get(f"{service.url}/health/ready")).status_code == 200
            problem_of(await client.get(f"{service.url}/collections/abc"), 404)
