"""Processes that are killed during concurrent ingestion and started again: no acknowledged write is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import httpx
import pytest

from tests.support.disks import Disk, LimitedFiles, SmallDisk, small_disk
from tests.support.ledger import all_documents, concurrent_ingestion, wait_for_writes, wait_until
from tests.support.processes import chroma_process_of, kill
from tests.support.recreation import recreate_under_load
from tests.support.servers import Served, free_port, running, start_chroma, start_service
from tests.system.conftest import Report

Kind = Literal["embedded", "remote"]


def environ_of(kind: Kind, chroma: Served, name: str) -> dict[str, str]:
    """Environment variables of a service with a database of its own."""
    return {} if kind == "embedded" else {"RAGSTORE_CHROMA_URL": chroma.url, "RAGSTORE_CHROMA_DATABASE": name}


async def test_chroma_killed_during_ingestion_and_started_again(tmp_path: Path, report: Report) -> None:
    port = free_port()
    chroma = start_chroma(tmp_path, port)
    with running(start_service(tmp_path, {"RAGSTORE_CHROMA_URL": chroma.url})) as service:
        async with concurrent_ingestion(service) as ledger:
            kill(chroma)
            failed = ledger.failures
            await wait_until(lambda: ledger.failures > failed + 8)
            chroma = await asyncio.to_thread(start_chroma, tmp_path, port)
            await ledger.wait_for_more(20)
        with running(chroma):
            report("Chroma killed and started again", ledger.check())


@pytest.mark.parametrize("kind", ["embedded", "remote"])
async def test_the_service_killed_during_ingestion_and_started_again(
    tmp_path: Path, chroma: Served, name: str, report: Report, kind: Kind
) -> None:
    environ, port = environ_of(kind, chroma, name), free_port()
    service = start_service(tmp_path, environ, port=port)
    async with concurrent_ingestion(service) as ledger:
        kill(service)
        service = await asyncio.to_thread(start_service, tmp_path, environ, port=port)
        await ledger.wait_for_more(20)
    with running(service):
        report(f"the service killed and started again, {kind}", ledger.check())


async def test_embedded_chromas_process_killed_during_ingestion(tmp_path: Path, report: Report) -> None:
    # Chroma saves often, so that some of the kills interrupt a save.
    with running(start_service(tmp_path, {"RAGSTORE_SYNC_THRESHOLD": "10"})) as service:
        async with concurrent_ingestion(service) as ledger:
            for _ in range(3):
                os.kill(chroma_process_of(service), signal.SIGKILL)
                await ledger.wait_for_more(12)
        report("embedded Chroma's process killed, three times", ledger.check())


@pytest.mark.parametrize("kind", ["embedded", "remote"])
async def test_a_service_stops_gracefully_and_in_time_during_ingestion(
    tmp_path: Path, chroma: Served, name: str, report: Report, kind: Kind
) -> None:
    environ, port = {**environ_of(kind, chroma, name), "RAGSTORE_SHUTDOWN_SECONDS": "10"}, free_port()
    service = start_service(tmp_path, environ, port=port)
    async with concurrent_ingestion(service) as ledger:
        service.process.terminate()
        code = await asyncio.to_thread(service.process.wait, 15)
    assert code == 0
    with running(start_service(tmp_path, environ, port=port)):
        report(f"the service stopped by SIGTERM, {kind}", ledger.check())


async def test_a_service_whose_chroma_hangs_stops_in_time(tmp_path: Path) -> None:
    with running(start_service(tmp_path, {"RAGSTORE_SHUTDOWN_SECONDS": "1"})) as service:
        async with concurrent_ingestion(service):
            process = chroma_process_of(service)
            os.kill(process, signal.SIGSTOP)
            service.process.terminate()
            assert await asyncio.to_thread(service.process.wait, 15) == 0
    await wait_until(lambda: not Path(f"/proc/{process}").exists())


@pytest.fixture(params=["a small disk", "files that may not grow"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A disk that can be filled."""
    if request.param == "a small disk":
        with small_disk(tmp_path) as small:
            yield small
    else:
        (tmp_path / "data").mkdir()
        yield LimitedFiles(tmp_path / "data")


async def test_a_full_disk_fails_writes_and_loses_nothing(disk: Disk, tmp_path: Path, report: Report) -> None:
    """Chroma hangs after a full disk, also when there is space again, unless it is reopened."""
    environ = {
        "RAGSTORE_DATA_PATH": str(disk.path),
        "RAGSTORE_CHROMA_TIMEOUT_SECONDS": "2",
        "RAGSTORE_LOG_LEVEL": "error",
    }
    with running(start_service(tmp_path, environ, prefix=disk.prefix)) as service:
        async with concurrent_ingestion(service) as ledger:
            disk.fill(service)
            failed = ledger.failures
            await wait_until(lambda: ledger.failures > failed + 8)
            disk.free(service)
            await ledger.wait_for_more(15)
        wait_for_writes(service.url)
        report(f"disk full for a while, embedded, {disk.kind}", ledger.check())
        stored = all_documents(service.url, ledger.collection)
    with running(start_service(tmp_path, environ, prefix=disk.prefix)) as again:
        assert all_documents(again.url, ledger.collection) == stored


def test_a_write_to_a_full_disk_is_503_with_a_code_of_its_own(tmp_path: Path) -> None:
    with small_disk(tmp_path) as small:
        environ = {"RAGSTORE_DATA_PATH": str(small.path)}
        with running(start_service(tmp_path, environ, prefix=small.prefix)) as service:
            small.fill(service)
            response = httpx.post(f"{service.url}/collections", json={"name": "notes"}, timeout=60)
            expected = (503, "chroma_disk_full", "1") if small.kind == SmallDisk.kind else (502, "chroma_failed", None)
            assert (response.status_code, response.json()["code"], response.headers.get("Retry-After")) == expected
            small.free(service)
            wait_for_writes(service.url)


async def test_a_collection_that_is_recreated_under_load_contains_whole_writes_only(
    tmp_path: Path,
) -> None:
    with running(start_service(tmp_path)) as service:
        async with httpx.AsyncClient(base_url=service.url, timeout=60) as client:
            (await client.post("/collections", json={"name": "recreated", "distance": "l2"})).raise_for_status()
            await recreate_under_load((client, client), "recreated")
