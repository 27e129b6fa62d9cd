"""Faults of the network between the service and Chroma."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.fault_proxy import Fault, fault_proxy
from tests.support.ledger import TIMEOUT_SECONDS, concurrent_ingestion, wait_for_writes, wait_until
from tests.support.problems import problem_of
from tests.support.servers import Served, running, start_service
from tests.system.conftest import Report

FAULTS: Final[tuple[Fault, ...]] = ("delay", "cut", "half-close", "truncate", "garble", "silence")

MIN_FAULTS: Final = 12
"""Number of faults before the network recovers."""


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_faulty_network_loses_nothing_and_the_service_recovers(
    tmp_path: Path, chroma: Served, name: str, report: Report, fault: Fault
) -> None:
    async with fault_proxy(urlsplit(chroma.url).port or 0) as proxy:
        environ = {
            "RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{proxy.port}",
            "RAGSTORE_CHROMA_DATABASE": name,
            "RAGSTORE_CHROMA_TIMEOUT_SECONDS": "2",
        }
        service = await asyncio.to_thread(start_service, tmp_path, environ)
        with running(service):
            async with concurrent_ingestion(service) as ledger:
                proxy.fault = fault
                await wait_until(lambda: proxy.faults >= (MIN_FAULTS if fault != "silence" else 4))
                proxy.fault = "none"
                await ledger.wait_for_more(12)
            await asyncio.to_thread(wait_for_writes, service.url)
            report(f"network: {fault}", await asyncio.to_thread(ledger.check))


async def test_a_chroma_that_does_not_respond_is_504_within_the_budget_and_probes_are_served(
    tmp_path: Path, chroma: Served, name: str
) -> None:
    async with (
        fault_proxy(urlsplit(chroma.url).port or 0) as proxy,
        httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as client,
    ):
        environ = {
            "RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{proxy.port}",
            "RAGSTORE_CHROMA_DATABASE": name,
            "RAGSTORE_REQUEST_TIMEOUT_SECONDS": "1",
        }
        service = await asyncio.to_thread(start_service, tmp_path, environ)
        with running(service):
            proxy.fault = "silence"
            response = await client.get(f"{service.url}/collections/abc")
            problem_of(response, 504)
            assert (await client.get(f"{service.url}/health/live")).status_code == 200
            assert (await client.get(f"{service.url}/health/ready")).status_code == 503
            proxy.fault = "none"
            await asyncio.to_thread(wait_for_writes, service.url)


async def test_an_open_circuit_fails_requests_and_a_successful_probe_closes_it(
    tmp_path: Path, chroma: Served, name: str
) -> None:
    async with (
        fault_proxy(urlsplit(chroma.url).port or 0) as proxy,
        httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as client,
    ):
        environ = {"RAGSTORE_CHROMA_URL": f"http://127.0.0.1:{proxy.port}", "RAGSTORE_CHROMA_DATABASE": name}
        service = await asyncio.to_thread(start_service, tmp_path, environ)
        with running(service):
            proxy.fault = "cut"
            proxy.every = 1
            details: list[str] = []
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while "circuit open" not in "".join(details):
                assert time.monotonic() < deadline
                response = await client.get(f"{service.url}/collections/abc")
                details.append(problem_of(response, 503)["detail"])
                assert int(response.headers["retry-after"]) >= 1
            proxy.fault = "none"
            assert (await client.get(f"{service.url}/health/ready")).status_code == 200
            problem_of(await client.get(f"{service.url}/collections/abc"), 404)
